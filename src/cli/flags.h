// Flags that several commands share, and what a command is to main(). Nothing here does the work of
// a command.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "app/prompt.h"
#include "engine/settings.h"
#include "sampling/sampling_params.h"

namespace CLI {
class App;
}

namespace pagoda::cli {

// What every command gets: whether to print JSON. Set by --json.
struct Output {
  bool is_json = false;
};

struct SamplingFlags {
  SamplingParams params;
  int32_t max_tokens = 0;  // 0: to the end of the context
  std::vector<std::string> stop;
  bool ignore_eos = false;
  GivenSampling given;  // the others come from the model's generation config or the defaults
};

void add_json_flag(CLI::App& command, Output& output);
void add_engine_flags(CLI::App& command, EngineSettings& settings);
void add_sampling_flags(CLI::App& command, SamplingFlags& flags);

// "4GiB", "512 MiB", "1000000". Throws Error{"usage.bad_size"}.
int64_t parse_bytes(const std::string& text);

// A command: registers its flags on `app` and runs when chosen. The result is the exit status.
using Command = void (*)(CLI::App& app, int& status);
void add_run(CLI::App& app, int& status);
void add_chat(CLI::App& app, int& status);
void add_plan(CLI::App& app, int& status);
void add_bench(CLI::App& app, int& status);
void add_perplexity(CLI::App& app, int& status);
void add_tokenize(CLI::App& app, int& status);
void add_detokenize(CLI::App& app, int& status);
void add_template(CLI::App& app, int& status);
void add_inspect(CLI::App& app, int& status);
void add_version(CLI::App& app, int& status);

}  // namespace pagoda::cli
