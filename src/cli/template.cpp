#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "app/model_path.h"
#include "base/error.h"
#include "cli/flags.h"
#include "cli/input.h"
#include "cli/loading.h"
#include "engine/deployment.h"
#include "formats/checkpoint.h"
#include "formats/json_limits.h"

namespace pagoda::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Flags {
  Output output;
  std::string model, messages = "-", tools;
  bool has_no_generation_prompt = false;
};

Json json_in(const std::string& path) {
  const std::string text = read_input(path);
  check_json(text, "usage.json", path == "-" ? "the standard input" : path);
  return Json::parse(text);
}

void render(const Flags& flags) {
  const auto checkpoint = open_checkpoint(resolve_model(flags.model));
  HostAllocator allocator;
  const Tokenizer tokenizer(checkpoint->metadata(), allocator);
  std::optional<std::string_view> source;
  if (checkpoint->metadata().has("tokenizer.chat_template"))
    source = checkpoint->metadata().string("tokenizer.chat_template");
  const ChatTemplate chat_template = make_chat_template(source, tokenizer);
  Json document = json_in(flags.messages);  // {"messages": […], "tools": […]}, or the array alone
  Json tools;
  if (!flags.tools.empty()) tools = json_in(flags.tools);
  if (document.is_object()) {
    if (tools.is_null() && document.contains("tools")) tools = document["tools"];
    document = document.value("messages", Json());
  }
  ChatTemplate::Request request;
  request.tools = tools.is_null() ? nullptr : &tools;
  request.add_generation_prompt = !flags.has_no_generation_prompt;
  const RenderedPrompt prompt = chat_template.render(document, request);
  const std::string text = join_parts(prompt);
  if (!flags.output.is_json) {
    write_out(text);
    return;
  }
  const Json result = {{"text", text},
                       {"ids", tokenizer.encode_parts(prompt, {.add_bos = tokenizer.adds_bos()})}};
  write_out(result.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

}  // namespace

void add_template(CLI::App& app, int&) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command =
      app.add_subcommand("template", "the prompt that the model's chat template makes of messages");
  command->add_option("MODEL", flags->model)->required();
  command->add_option(
      "--messages",
      flags->messages,
      "a JSON file: an array of messages, or an object with messages and tools; -: standard input");
  command->add_option("--tools", flags->tools, "a JSON file: an array of tools");
  command->add_flag(
      "--no-generation-prompt", flags->has_no_generation_prompt, "end with the last message");
  add_json_flag(*command, flags->output);
  command->final_callback([flags] { render(*flags); });
}

}  // namespace pagoda::cli
