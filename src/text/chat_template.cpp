#include "text/chat_template.h"

#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "text/chat_messages.h"
#include "text/jinja_eval.h"
#include "text/jinja_parser.h"
#include "text/jinja_unicode.h"

namespace pagoda {
namespace {

std::tm local_time() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm result = {};
  localtime_r(&now, &result);
  return result;
}

}  // namespace

struct ChatTemplate::Parsed {
  Options options;
  jinja::Body body;
};

std::string join_parts(const RenderedPrompt& prompt) {
  std::string text;
  for (const TextPart& part : prompt) text += part.text;
  return text;
}

ChatTemplate::ChatTemplate(std::string_view source, Options options)
    : parsed_(std::make_unique<Parsed>()) {
  if (source.empty()) {
    throw Error("template.missing",
                "the model has no chat template: --raw sends the prompt as it is");
  }
  parsed_->body = jinja::parse(source, options.limits.parse_depth);
  parsed_->options = std::move(options);
}

ChatTemplate::~ChatTemplate() = default;
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;

RenderedPrompt ChatTemplate::render(const nlohmann::ordered_json& messages,
                                    const Request& request) const {
  const Options& options = parsed_->options;
  jinja::Runtime rt(options.limits, request.now ? *request.now : local_time());
  jinja::Scope globals;
  globals.set("messages", to_value(rt, normalise_messages(messages), "messages"));
  globals.set(
      "tools",
      request.tools == nullptr ? jinja::Value::none() : to_value(rt, *request.tools, "tools"));
  globals.set("documents", jinja::Value::none());
  globals.set("add_generation_prompt", jinja::Value::boolean(request.add_generation_prompt));
  if (options.bos_token) globals.set("bos_token", rt.str(*options.bos_token));
  if (options.eos_token) globals.set("eos_token", rt.str(*options.eos_token));
  if (request.kwargs != nullptr) {
    check_kwargs(*request.kwargs);
    for (const auto& [name, value] : request.kwargs->items()) {
      const jinja::Value key = rt.str(name, TextOrigin::plain);  // owns the name while we render
      globals.set(key.bytes(), to_value(rt, value, "chat_template_kwargs"));
    }
  }
  return jinja::Evaluator(rt, globals).render(parsed_->body).parts();
}

RenderedPrompt ChatTemplate::render_chat(std::span<const ChatMessage> messages,
                                         const Request& request) const {
  auto json = nlohmann::ordered_json::array();
  for (const ChatMessage& message : messages) {
    json.push_back({{"role", message.role}, {"content", message.content}});
  }
  return render(json, request);
}

}  // namespace pagoda
