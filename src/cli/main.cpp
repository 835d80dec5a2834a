// pagoda: parses the command line, runs one command, and is one of the four places where an Error
// is caught.
#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <iostream>
#include <new>
#include <string_view>

#include "cli/errors.h"
#include "cli/flags.h"
#include "cli/interrupt.h"

namespace {

using namespace pagoda::cli;  // NOLINT: main's own

constexpr struct {
  Command add;
} kCommands[] = {{add_run},
                 {add_chat},
                 {add_plan},
                 {add_bench},
                 {add_perplexity},
                 {add_tokenize},
                 {add_detokenize},
                 {add_template},
                 {add_inspect},
                 {add_version}};

std::atomic<bool> bus_error_is_json{false};  // for the handler, which cannot be given an object

// A model file that shrinks while it is mapped faults at its next use: say so and stop, rather than
// answer wrongly.
void on_bus_error(int) {
#define PAGODA_CHANGED "the model file was cut short while it was in use"
  constexpr std::string_view kText = "error[model.changed]: " PAGODA_CHANGED "\n";
  constexpr std::string_view kJson =
      R"({"error": {"kind": "model.changed", "message": ")" PAGODA_CHANGED "\"}}\n";
#undef PAGODA_CHANGED
  claim_last_error();  // every thread that reads the file comes here
  (void)!write(STDERR_FILENO, kText.data(), kText.size());
  if (bus_error_is_json) (void)!write(STDOUT_FILENO, kJson.data(), kJson.size());
  _exit(kModel);
}

// A standard stream that came closed: its number would go to the next file opened, a model, say.
// /dev/null opened the wrong way round makes any use an error, as it should be.
void keep_standard_streams() {
  constexpr int kWrongWay[] = {O_WRONLY, O_RDONLY, O_RDONLY};
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(fd, F_GETFD) < 0) (void)!open("/dev/null", kWrongWay[fd]);
}

void install_signal_handlers() {
  install_interrupt_handlers();
  std::signal(SIGBUS, on_bus_error);
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe is an error of the write
}

bool wants_json(int argc, char** argv) {
  for (int i = 1; i < argc; i++)
    if (std::strcmp(argv[i], "--json") == 0) return true;
  return false;
}

// CLI11 says of an unknown command only that one is required.
void check_command(const CLI::App& app, int argc, char** argv) {
  if (argc < 2) return;
  if (argv[1][0] == '-') {
    const std::string_view flag = argv[1];
    for (const char* own : {"-h", "--help", "--version", "--json"})
      if (flag == own) return;
    throw pagoda::Error(
        "usage.bad_flag", "there is no flag {} before the command (see pagoda --help)", flag);
  }
  std::string known;
  for (const CLI::App* command : app.get_subcommands({})) {
    if (command->get_name() == argv[1]) return;
    known += (known.empty() ? "" : ", ") + command->get_name();
  }
  throw pagoda::Error(
      "usage.unknown_command", "there is no command \"{}\"; commands: {}", argv[1], known);
}

pagoda::Error closed_output() {
  return {"output.closed", "cannot write to the standard output"};
}

int usage_error(const CLI::App& app, const CLI::ParseError& error, bool is_json) {
  if (error.get_exit_code() == 0) {  // --help, --version
    const int status = app.exit(error);
    std::cout.flush();
    if (std::cout.good()) return status;
    print_error(closed_output(), false);
    return kFailed;
  }
  print_error(pagoda::Error("usage.bad_flag", "{} (see pagoda --help)", error.what()), is_json);
  return kUsage;
}

}  // namespace

int main(int argc, char** argv) {
  keep_standard_streams();
  install_signal_handlers();
  CLI::App app(
      "Pagoda runs language models on CPUs and NVIDIA GPUs, with a memory plan that is exact to "
      "the byte.");
  app.name("pagoda");
  app.require_subcommand(1);
  app.set_version_flag("--version", [] { return std::string("pagoda " PAGODA_VERSION); });
  int status = kDone;
  for (const auto& command : kCommands) command.add(app, status);
  const bool is_json = wants_json(argc, argv);
  bus_error_is_json = is_json;
  try {
    check_command(app, argc, argv);
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return usage_error(app, error, is_json);
  } catch (const pagoda::Error& error) {
    print_error(error, is_json);
    return exit_status(error);
  } catch (const std::bad_alloc&) {
    print_error(pagoda::Error("memory.alloc_failed",
                              "out of memory; use a smaller model or --max-model-len"),
                is_json);
    return kEnvironment;
  } catch (const std::exception& error) {
    print_error(
        pagoda::Error(
            "bug.uncaught",
            "{}; this is a fault of pagoda: please report it with the command and the output of "
            "`pagoda version`",
            error.what()),
        is_json);
    return kBug;
  }
  const bool is_written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (!is_written && status == kDone) {
    print_error(closed_output(), false);
    return kFailed;
  }
  return status;
}
