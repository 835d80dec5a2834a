// Errors at the door: the exit status of each kind, and how they are printed.
#pragma once

#include "base/error.h"

namespace pagoda::cli {

enum ExitStatus : int {
  kDone = 0,
  kFailed = 1,
  kUsage = 2,
  kModel = 3,
  kEnvironment = 4,
  kBug = 70,
  kInterrupted = 130
};

// By the kind's first part: "model", "gguf", "st", "tokenizer", "template" are the model's fault;
// "memory", "kv", "cpu", "device", "net" the machine's; "usage", "request" the caller's.
ExitStatus exit_status(const Error& error);

// A process ends with one error: of the threads that call this the first goes on, and the others
// stop here until it has ended the process. May be called by a signal handler.
void claim_last_error();

// Claims it. stderr: "error[kind]: message"; with JSON also {"error": {"kind", "message"}} on
// stdout.
void print_error(const Error& error, bool is_json);

}  // namespace pagoda::cli
