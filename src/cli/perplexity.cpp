#include "app/perplexity.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/flags.h"
#include "cli/input.h"
#include "cli/loading.h"

namespace pagoda::cli {
namespace {

constexpr int32_t kWindow = 512;
constexpr int32_t kRowsAtOnce = 16;  // logits rows computed together

struct Flags {
  Output output;
  EngineSettings settings;
  std::string model, file;
};

void run(Flags& flags) {
  EngineSettings& settings = flags.settings;
  if (settings.max_model_len == 0) settings.max_model_len = kWindow;
  settings.max_num_seqs = kRowsAtOnce;
  const std::string text = read_input(flags.file);
  const auto deployment = load(flags.model, settings, nullptr);
  const Tokenizer& tokenizer = deployment->tokenizer();
  const std::vector<int32_t> tokens = tokenizer.encode(text, {.add_bos = tokenizer.adds_bos()});
  const bool shows_progress = isatty(STDERR_FILENO) != 0;
  const PerplexityResult result = perplexity(
      *deployment, tokens, settings.max_model_len, [&](int64_t done, int64_t all, double so_far) {
        if (shows_progress)
          std::fprintf(stderr, "\rwindow %ld of %ld: %.4f ", long(done), long(all), so_far);
        if (shows_progress && done == all) std::fputs("\r\x1b[K", stderr);
      });
  if (!flags.output.is_json) {
    write_out(fmt::format("perplexity {:.4f}  nll {:.6f}  {} tokens scored in {} windows of {}\n",
                          result.perplexity,
                          result.nll,
                          result.num_scored,
                          result.num_windows,
                          settings.max_model_len));
    return;
  }
  const nlohmann::ordered_json document = {{"perplexity", result.perplexity},
                                           {"nll", result.nll},
                                           {"tokens", result.num_scored},
                                           {"windows", result.num_windows}};
  write_out(document.dump(2) + "\n");
}

}  // namespace

void add_perplexity(CLI::App& app, int&) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand(
      "perplexity",
      "of a text, in windows of --context tokens (512), each scored over its second half");
  command->add_option("MODEL", flags->model)->required();
  command->add_option("FILE", flags->file, "the text")->required();
  add_json_flag(*command, flags->output);
  add_engine_flags(*command, flags->settings);
  command->final_callback([flags] { run(*flags); });
}

}  // namespace pagoda::cli
