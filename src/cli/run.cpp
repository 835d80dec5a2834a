#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "app/generate.h"
#include "app/prompt.h"
#include "base/log.h"
#include "cli/errors.h"
#include "cli/flags.h"
#include "cli/input.h"
#include "cli/interrupt.h"
#include "cli/loading.h"

namespace pagoda::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Flags {
  Output output;
  EngineSettings settings;
  SamplingFlags sampling;
  std::string model, prompt = "-", system;
  bool is_raw = false;
};

GenerateRequest request_of(Flags& flags, const Deployment& deployment) {
  GenerateRequest request;
  const std::string text = flags.prompt == "-" ? read_input("-") : flags.prompt;
  const bool is_base_model = !deployment.has_chat_template() && flags.system.empty();
  if (is_base_model && !flags.is_raw)
    log_warning("{} has no chat template: the text is continued as it is",
                deployment.config().name);
  if (flags.is_raw || is_base_model) {
    request.prompt = raw_prompt(deployment, text);
  } else {
    std::vector<ChatMessage> messages;
    if (!flags.system.empty()) messages.push_back({"system", flags.system});
    messages.push_back({"user", text});
    request.prompt = chat_prompt(deployment, messages);
  }
  fill_defaults(flags.sampling.params, flags.sampling.given, deployment.generation_defaults());
  request.sampling = flags.sampling.params;
  request.max_tokens = flags.sampling.max_tokens;
  request.stop = flags.sampling.stop;
  request.ignores_eos = flags.sampling.ignore_eos;
  return request;
}

Json json_of(const GenerateResult& result, const GenerateRequest& request, double load_s) {
  Json document = {{"text", result.text},
                   {"token_ids", result.token_ids},
                   {"prompt_token_ids", request.prompt},
                   {"finish_reason", name(result.finish_reason)},
                   {"seed", result.seed},
                   {"usage",
                    {{"prompt_tokens", result.prompt_tokens},
                     {"completion_tokens", result.token_ids.size()},
                     {"cached_tokens", result.cached_tokens}}},
                   {"timings",
                    {{"load_s", load_s},
                     {"ttft_s", result.ttft_s},
                     {"prefill_tokens_per_s", result.prefill_tokens_per_s},
                     {"decode_tokens_per_s", result.decode_tokens_per_s},
                     {"peak_rss_bytes", peak_rss_bytes()}}}};
  if (!result.logprobs.empty()) {
    Json rows = Json::array();
    for (const TokenLogprobs& row : result.logprobs) {
      Json top = Json::array();
      for (const TokenValue& other : row.top)
        top.push_back({{"token", other.token}, {"logprob", other.value}});
      rows.push_back({{"token", row.token}, {"logprob", row.logprob}, {"top", top}});
    }
    document["logprobs"] = rows;
  }
  return document;
}

int run(Flags& flags) {
  double load_s = 0;
  const auto deployment = load(flags.model, flags.settings, &load_s);
  GenerateRequest request = request_of(flags, *deployment);
  const InterruptScope scope;
  request.cancelled = &scope.flag();
  bool is_read = true;
  const GenerateResult result = generate(*deployment, request, [&](std::string_view text) {
    if (!flags.output.is_json) is_read = write_out(text);
    return is_read;
  });
  if (flags.output.is_json) {
    is_read = write_out(
        json_of(result, request, load_s).dump(2, ' ', false, Json::error_handler_t::replace) +
        "\n");
  } else {
    is_read = write_out("\n") && is_read;
  }
  if (!is_read) throw Error("output.closed", "nobody reads the standard output any more");
  return scope.flag() ? kInterrupted : kDone;
}

}  // namespace

void add_run(CLI::App& app, int& status) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("run", "one answer to one prompt, streamed");
  command
      ->add_option("MODEL", flags->model, "a .gguf file, a folder, or a name in the model folder")
      ->required();
  command->add_option("PROMPT", flags->prompt, "the prompt; - or none: standard input");
  command->add_flag("--raw", flags->is_raw, "no chat template: continue the text");
  command->add_option("--system", flags->system, "a system message");
  add_json_flag(*command, flags->output);
  add_sampling_flags(*command, flags->sampling);
  add_engine_flags(*command, flags->settings);
  command->final_callback([flags, &status] { status = run(*flags); });
}

}  // namespace pagoda::cli
