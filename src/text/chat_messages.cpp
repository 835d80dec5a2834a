#include "text/chat_messages.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "text/jinja_functions.h"
#include "text/jinja_unicode.h"

namespace pagoda {
namespace {

using Json = nlohmann::ordered_json;

template <typename... T>
[[noreturn]] void refuse(fmt::format_string<T...> format, T&&... args) {
  throw Error("template.input", fmt::format(format, std::forward<T>(args)...));
}

// Copying JSON recurses, so its depth is looked at first, without recursion.
void check_depth(const Json& json) {
  constexpr int kMaxDepth = 200;
  std::vector<std::pair<const Json*, int>> open = {{&json, 1}};
  while (!open.empty()) {
    const auto [node, depth] = open.back();
    open.pop_back();
    if (depth > kMaxDepth) refuse("messages: nested more than {} levels deep", kMaxDepth);
    if (!node->is_structured()) continue;
    for (const Json& child : *node) {
      if (child.is_structured()) open.emplace_back(&child, depth + 1);
    }
  }
}

// [{"type": "text", "text": "..."}...] to one string.
std::string join_content(const Json& parts, const std::string& path) {
  std::string text;
  for (size_t i = 0; i < parts.size(); ++i) {
    const Json& part = parts[i];
    if (i > 0) text += '\n';
    if (part.is_string()) {
      text += part.get_ref<const std::string&>();
      continue;
    }
    if (!part.is_object() || part.value("type", Json()) != Json("text") || !part.contains("text") ||
        !part["text"].is_string()) {
      refuse("{}[{}]: expected a part of type text (no other kind is supported)", path, i);
    }
    text += part["text"].get_ref<const std::string&>();
  }
  return text;
}

void parse_arguments(Json* call, const std::string& path) {
  if (!call->is_object()) refuse("{}: expected an object", path);
  const auto function = call->find("function");
  if (function == call->end() || !function->is_object()) return;
  const auto arguments = function->find("arguments");
  if (arguments == function->end() || !arguments->is_string()) return;
  const auto& text = arguments->get_ref<const std::string&>();
  Json parsed = text.empty() ? Json::object() : Json::parse(text, nullptr, false);
  if (!parsed.is_object()) {
    refuse("{}.function.arguments: expected the text of a JSON object", path);
  }
  *arguments = std::move(parsed);
}

}  // namespace

Json normalise_messages(const Json& messages) {
  if (!messages.is_array()) refuse("messages: expected an array of messages");
  check_depth(messages);
  Json result = messages;
  for (size_t i = 0; i < result.size(); ++i) {
    Json& message = result[i];
    const std::string path = fmt::format("messages[{}]", i);
    if (!message.is_object()) refuse("{}: expected an object with role and content", path);
    if (!message.contains("role") || !message["role"].is_string()) {
      refuse("{}.role: expected a string", path);
    }
    const auto content = message.find("content");
    if (content != message.end()) {
      if (content->is_array()) *content = join_content(*content, path + ".content");
      if (!content->is_string() && !content->is_null()) {
        refuse("{}.content: expected a string or an array of parts", path);
      }
    }
    const auto calls = message.find("tool_calls");
    if (calls == message.end() || calls->is_null()) continue;
    if (!calls->is_array()) refuse("{}.tool_calls: expected an array", path);
    for (size_t j = 0; j < calls->size(); ++j) {
      parse_arguments(&(*calls)[j], fmt::format("{}.tool_calls[{}]", path, j));
    }
  }
  return result;
}

void check_kwargs(const Json& kwargs) {
  static constexpr std::string_view kReserved[] = {"messages",
                                                   "tools",
                                                   "documents",
                                                   "add_generation_prompt",
                                                   "bos_token",
                                                   "eos_token",
                                                   "chat_template",
                                                   "tokenize",
                                                   "loop",
                                                   "caller"};
  if (!kwargs.is_object()) refuse("chat_template_kwargs: expected an object");
  for (const auto& [name, value] : kwargs.items()) {
    const bool reserved =
        std::find(std::begin(kReserved), std::end(kReserved), name) != std::end(kReserved) ||
        jinja::find_global(name) != nullptr;
    if (reserved) {
      refuse("chat_template_kwargs.{}: this name is the template's own, a request cannot set it",
             name);
    }
  }
}

jinja::Value to_value(jinja::Runtime& rt, const Json& json, std::string_view path) {
  using jinja::Value;
  const jinja::Depth depth(rt);
  const auto text = [&](const std::string& s) {
    if (!jinja::valid_utf8(s)) refuse("{}: a string is not valid UTF-8", path);
    return rt.str(s, TextOrigin::plain);
  };
  switch (json.type()) {
    case Json::value_t::boolean:
      return Value::boolean(json.get<bool>());
    case Json::value_t::number_integer:
      return Value::integer(json.get<int64_t>());
    case Json::value_t::number_unsigned:
      if (json.get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX)) {
        return Value::integer(json.get<int64_t>());
      }
      return Value::real(json.get<double>());
    case Json::value_t::number_float:
      return Value::real(json.get<double>());
    case Json::value_t::string:
      return text(json.get_ref<const std::string&>());
    case Json::value_t::array: {
      jinja::List* list = rt.list();
      for (const Json& item : json) rt.push(list, to_value(rt, item, path));
      return Value(list);
    }
    case Json::value_t::object: {
      jinja::Dict* dict = rt.dict();
      for (const auto& [key, item] : json.items()) {
        rt.put(dict, text(key), to_value(rt, item, path));
      }
      return Value(dict);
    }
    default:
      return Value::none();
  }
}

}  // namespace pagoda
