// ChatTemplate: messages to prompt, by the Jinja template that a model carries.
//
// The template is the operator's or the model's, never a request's (rule R12); what the request
// gives (messages, tools, extra variables) is content. The prompt says for each piece who wrote it,
// so that the tokenizer recognises control tokens in the template's own bytes only (rule R10).
// Parsed once, rendered often and from several threads. Errors: template.missing, .syntax, .limit
// when made; .input (bad messages), .runtime, .raised (by the template, in its words), .limit when
// rendered.
#pragma once

#include <ctime>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja_runtime.h"
#include "text/text_part.h"

namespace pagoda {

using RenderedPrompt = std::vector<TextPart>;

// All parts, one behind the other.
std::string join_parts(const RenderedPrompt& prompt);

struct ChatMessage {
  std::string role;
  std::string content;
};

class ChatTemplate {
 public:
  struct Options {
    std::optional<std::string> bos_token =
        std::nullopt;  // undefined in the template where there is none
    std::optional<std::string> eos_token = std::nullopt;
    jinja::Limits limits = {};
  };
  struct Request {
    const nlohmann::ordered_json* tools = nullptr;   // an array; None in the template without it
    const nlohmann::ordered_json* kwargs = nullptr;  // an object of extra variables
    bool add_generation_prompt = true;
    std::optional<std::tm> now = std::nullopt;  // of strftime_now; local time when left out
  };

  ChatTemplate(std::string_view source, Options options);
  ~ChatTemplate();
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;

  // `messages` is an array of objects in OpenAI's form. Parts of a content that is a list are
  // joined by newlines (text only); arguments of tool calls that are JSON text become mappings.
  RenderedPrompt render(const nlohmann::ordered_json& messages, const Request& request) const;
  RenderedPrompt render_chat(std::span<const ChatMessage> messages, const Request& request) const;

 private:
  struct Parsed;
  std::unique_ptr<Parsed> parsed_;
};

}  // namespace pagoda
