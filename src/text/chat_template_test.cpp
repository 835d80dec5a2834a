#include "text/chat_template.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"

namespace pagoda {
namespace {

using Json = nlohmann::ordered_json;

std::string render(std::string_view source,
                   const Json& messages = Json::array(),
                   const ChatTemplate::Request& request = {}) {
  const ChatTemplate chat(source, {.bos_token = "<s>", .eos_token = "</s>"});
  return join_parts(chat.render(messages, request));
}

// "kind: message" of the Error that the rendering ends with.
std::string error_of(std::string_view source,
                     const Json& messages = Json::array(),
                     const ChatTemplate::Request& request = {}) {
  try {
    return "no error, but: " + render(source, messages, request);
  } catch (const Error& error) {
    return error.kind() + ": " + error.message();
  }
}

std::string repeat(std::string_view text, int times) {
  std::string result;
  for (int i = 0; i < times; ++i) result += text;
  return result;
}

Json user(const std::string& content) {
  return Json::array({{{"role", "user"}, {"content", content}}});
}

TEST(ChatTemplate, a_model_without_a_template_is_refused_with_the_way_out) {
  const std::string error = error_of("");
  EXPECT_TRUE(error.starts_with("template.missing:")) << error;
  EXPECT_NE(error.find("--raw"), std::string::npos) << error;
}

TEST(ChatTemplate, raise_exception_carries_the_words_of_the_template) {  // TP-01
  EXPECT_EQ(error_of("{{ raise_exception('System role not supported') }}"),
            "template.raised: System role not supported");
}

TEST(ChatTemplate, tojson_writes_the_bytes_of_python_json_dumps) {  // TP-02
  const Json tools = Json::parse(R"([{"b": "<&'/—漢", "a": [1, 1.0, true, null]}])");
  EXPECT_EQ(render("{{ tools | tojson }}", Json::array(), {.tools = &tools}),
            R"([{"b": "<&'/—漢", "a": [1, 1.0, true, null]}])");
}

Json call_with(const Json& arguments) {
  return Json::array(
      {{{"role", "assistant"},
        {"content", nullptr},
        {"tool_calls", Json::array({{{"function", {{"name", "f"}, {"arguments", arguments}}}}})}}});
}

constexpr const char* kArguments =
    "{% for k, v in messages[0].tool_calls[0].function.arguments | items %}{{ k }}={{ v }};{% "
    "endfor %}";

TEST(ChatTemplate, arguments_given_as_json_text_are_a_mapping) {  // TP-03
  EXPECT_EQ(render(kArguments, call_with(R"({"x": 1, "a": "b"})")), "x=1;a=b;");
  EXPECT_EQ(render(kArguments, call_with("")), "");
  EXPECT_EQ(render(kArguments, call_with(Json{{"y", 2}})), "y=2;");
}

TEST(ChatTemplate, malformed_arguments_name_their_parameter) {  // TP-03
  for (const char* text : {"{\"x\":", "5", "[1]", "nonsense"}) {
    EXPECT_EQ(error_of(kArguments, call_with(text)),
              "template.input: messages[0].tool_calls[0].function.arguments: expected the text of "
              "a JSON object");
  }
}

TEST(ChatTemplate, strftime_now_tells_the_injected_time) {  // TP-04
  std::tm now = {};
  now.tm_year = 124;
  now.tm_mon = 6;
  now.tm_mday = 26;
  EXPECT_EQ(render("{{ strftime_now('%d %b %Y') }}", Json::array(), {.now = now}), "26 Jul 2024");
}

TEST(ChatTemplate, kwargs_cannot_take_the_place_of_the_templates_own_names) {  // TP-05
  for (const char* name : {"messages",
                           "tools",
                           "add_generation_prompt",
                           "bos_token",
                           "eos_token",
                           "chat_template",
                           "tokenize",
                           "raise_exception",
                           "range"}) {
    const Json kwargs = {{name, "x"}};
    const std::string error = error_of("x", Json::array(), {.kwargs = &kwargs});
    EXPECT_TRUE(error.starts_with("template.input:")) << name << " " << error;
    EXPECT_NE(error.find(name), std::string::npos) << error;
  }
}

TEST(ChatTemplate, other_kwargs_reach_the_template) {  // TP-05
  const Json kwargs = {{"enable_thinking", false}};
  EXPECT_EQ(render("{{ enable_thinking }}", Json::array(), {.kwargs = &kwargs}), "False");
}

TEST(ChatTemplate, a_content_of_text_parts_is_joined) {
  const Json messages = Json::parse(
      R"([{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}])");
  EXPECT_EQ(render("{{ messages[0].content }}", messages), "a\nb");
}

TEST(ChatTemplate, messages_of_another_shape_are_refused_by_path) {
  const auto kind_and_path = [](const char* json) {
    const std::string error = error_of("x", Json::parse(json));
    return error.substr(0, error.find(": expected"));
  };
  EXPECT_EQ(kind_and_path("{}"), "template.input: messages");
  EXPECT_EQ(kind_and_path("[1]"), "template.input: messages[0]");
  EXPECT_EQ(kind_and_path(R"([{"content": "x"}])"), "template.input: messages[0].role");
  EXPECT_EQ(kind_and_path(R"([{"role": "user", "content": 5}])"),
            "template.input: messages[0].content");
  EXPECT_EQ(kind_and_path(R"([{"role": "user", "content": [{"type": "image_url"}]}])"),
            "template.input: messages[0].content[0]");
  EXPECT_EQ(kind_and_path(R"([{"role": "user", "tool_calls": 5}])"),
            "template.input: messages[0].tool_calls");
}

TEST(ChatTemplate, content_that_is_not_utf8_is_refused) {
  const std::string error = error_of("{{ messages }}", user("\xff"));
  EXPECT_TRUE(error.starts_with("template.input: messages")) << error;
}

TEST(ChatTemplate, messages_nested_without_end_are_refused) {
  Json deep = Json::array();
  for (int i = 0; i < 100'000; ++i) {
    Json outer = Json::array();
    outer.push_back(std::move(deep));
    deep = std::move(outer);
  }
  EXPECT_TRUE(error_of("x", deep).starts_with("template.input: messages: nested")) << "deep";
}

// --- Who wrote what (R10).

std::string marked(std::string_view source, const Json& messages) {
  const ChatTemplate chat(source, {.bos_token = "<s>"});
  std::string text;
  TextOrigin last = TextOrigin::plain;
  bool first = true;
  for (const TextPart& part : chat.render(messages, {})) {
    EXPECT_FALSE(part.text.empty());
    EXPECT_TRUE(first || part.origin != last) << "neighbours of one origin: " << part.text;
    first = false;
    last = part.origin;
    text += part.origin == TextOrigin::plain ? "[" + part.text + "]" : part.text;
  }
  return text;
}

TEST(ChatTemplateOrigin, content_stays_content_between_the_templates_bytes) {
  EXPECT_EQ(marked("{{ bos_token + '<u>' + messages[0].content + '</u>' }}!", user("<s>")),
            "<s><u>[<s>]</u>!");
}

TEST(ChatTemplateOrigin, content_stays_content_through_every_operation) {
  const Json messages = user(" ab ");
  EXPECT_EQ(marked("{{ ('<' ~ messages[0].content ~ '>')[1:-1] | trim }}", messages), "[ab]");
  EXPECT_EQ(marked("{{ messages[0].content.replace('a', 'X') }}", messages), "[ ]X[b ]");
  EXPECT_EQ(marked("{{ 'x-y'.replace('-', messages[0].content) }}", messages), "x[ ab ]y");
  EXPECT_EQ(marked("{{ ['<', messages[0].content.strip(), '>'] | join('|') }}", messages),
            "<|[ab]|>");
  EXPECT_EQ(marked("{{ ('x' ~ messages[0].content.split()[0]).upper() }}", messages), "X[AB]");
  EXPECT_EQ(marked("{% for c in 'q' ~ messages[0].content %}{{ c }}{% endfor %}", messages),
            "q[ ab ]");
  EXPECT_EQ(marked("{{ messages[0].content * 2 }}", messages), "[ ab  ab ]");
  EXPECT_EQ(marked("{{ messages[0].content[::-1] }}", messages), "[ ba ]");
  EXPECT_EQ(marked("{{ '<{}>'.format(messages[0].content) }}", messages), "<[ ab ]>");
  EXPECT_EQ(marked("{{ messages[0].content | e | indent | title }}", messages), "[ Ab ]");
  EXPECT_EQ(marked("{% macro m(x) %}<{{ x }}>{% endmacro %}{{ m(messages[0].content) }}", messages),
            "<[ ab ]>");
  EXPECT_EQ(marked("{% set b %}<{{ messages[0].content }}>{% endset %}{{ b }}", messages),
            "<[ ab ]>");
  EXPECT_EQ(marked("{{ messages[0].role }}{% for k in messages[0] %}{{ k }}{% endfor %}", messages),
            "[userrolecontent]");
}

TEST(ChatTemplateOrigin, text_made_of_a_container_is_content_when_any_of_it_is) {
  const Json messages = user("a");
  EXPECT_EQ(marked("{{ messages | tojson }}", messages), R"([[{"role": "user", "content": "a"}]])");
  EXPECT_EQ(marked("{{ ['x', messages[0].content] }}", messages), "[['x', 'a']]");
  EXPECT_EQ(marked("{{ {'k': 1} | tojson }}", messages), R"({"k": 1})");
}

TEST(ChatTemplateOrigin, bos_comes_from_the_template) {
  EXPECT_EQ(marked("{{ bos_token }}{{ messages[0].content }}", user("<s>")), "<s>[<s>]");
}

// --- Limits (R9, R12).

std::string kind_of(const std::string& error) {
  return error.substr(0, error.find(':'));
}

TEST(ChatTemplateLimits, nesting_stops_at_the_depth_limit_whatever_nests) {
  constexpr int kMany = 6000;
  const std::string cases[] = {
      "{{ " + repeat("(", kMany) + "1" + repeat(")", kMany) + " }}",
      "{{ " + repeat("[", kMany) + repeat("]", kMany) + " }}",
      "{{ " + repeat("{1:", kMany) + "1" + repeat("}", kMany) + " }}",
      "{{ " + repeat("not ", kMany) + "1 }}",
      "{{ " + repeat("-", kMany) + "1 }}",
      "{{ " + repeat("x[", kMany) + "1" + repeat("]", kMany) + " }}",
      "{{ " + repeat("f(", kMany) + "1" + repeat(")", kMany) + " }}",
      "{{ " + repeat("1 if 1 else ", kMany) + "1 }}",
      repeat("{% if 1 %}", kMany) + repeat("{% endif %}", kMany),
      repeat("{% for x in y %}", kMany) + repeat("{% endfor %}", kMany),
      repeat("{% macro m() %}", kMany) + repeat("{% endmacro %}", kMany),
      repeat("{% set x %}", kMany) + repeat("{% endset %}", kMany),
      "{% for " + repeat("(", kMany) + "x" + repeat(")", kMany) + " in y %}{% endfor %}",
  };
  for (const std::string& source : cases) {
    EXPECT_EQ(kind_of(error_of(source)), "template.limit") << source.substr(0, 40);
  }
}

TEST(ChatTemplateLimits, long_chains_are_not_deep) {
  constexpr int kMany = 6000;
  EXPECT_EQ(render("{{ 1" + repeat(" + 1", kMany) + " }}"), "6001");
  EXPECT_EQ(render("{{ 'x'" + repeat(" ~ ''", kMany) + " }}"), "x");
  EXPECT_EQ(render("{{ 1" + repeat(" and 1", kMany) + " }}"), "1");
  EXPECT_EQ(render("{{ 'x'" + repeat("|upper", kMany) + " }}"), "X");
  EXPECT_EQ(render("{% if 0 %}" + repeat("{% elif 0 %}", kMany) + "{% else %}e{% endif %}"), "e");
}

TEST(ChatTemplateLimits, endless_work_stops) {
  const std::string loop = "{% for x in range(100000) %}";
  EXPECT_EQ(kind_of(error_of(loop + loop + "{% endfor %}{% endfor %}")), "template.limit");
  EXPECT_EQ(kind_of(error_of("{{ range(1000000000) }}")), "template.limit");
  EXPECT_EQ(kind_of(error_of("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}")), "template.limit");
  EXPECT_EQ(kind_of(error_of("{% set ns = namespace() %}{% set ns.a = ns %}{{ ns }}")),
            "template.limit");
}

TEST(ChatTemplateLimits, memory_stops_growing) {
  EXPECT_EQ(kind_of(error_of("{{ 'x' * 1000000000 }}")), "template.limit");
  EXPECT_EQ(kind_of(error_of("{{ '' * 1000000000 ~ [[]] * 1000000000 }}")), "template.limit");
  const std::string doubling = "{% set ns = namespace(x='xx') %}{% for i in range(99) %}";
  EXPECT_EQ(kind_of(error_of(doubling + "{% set ns.x = ns.x ~ ns.x %}{% endfor %}")),
            "template.limit");
  EXPECT_EQ(kind_of(error_of("{% set ns = namespace(x=[1]) %}{% for i in range(99) %}"
                             "{% set ns.x = ns.x + ns.x %}{% endfor %}")),
            "template.limit");
  EXPECT_EQ(kind_of(error_of("{% set l = [1] %}{% for i in range(99) %}{% for x in l %}"
                             "{% set _ = l.append(x) %}{% endfor %}{% endfor %}")),
            "template.limit");
  EXPECT_EQ(kind_of(error_of("{{ ('a' * 10000).replace('', 'b' * 10000) }}")), "template.limit");
  EXPECT_EQ(kind_of(error_of("{{ 9223372036854775807 + 1 }}")), "template.limit");
}

TEST(ChatTemplateLimits, output_stops_at_its_limit) {
  const ChatTemplate chat("{% for i in range(9) %}{{ 'x' * 10 }}{% endfor %}",
                          {.limits = {.max_output_bytes = 80}});
  EXPECT_THROW(chat.render(Json::array(), {}), Error);
}

// jinja2's immutable sandbox refuses these two; some public templates want them.
TEST(ChatTemplate, lists_made_by_the_template_grow_and_shrink) {
  EXPECT_EQ(render("{% set l = [1] %}{% set _ = l.append(2) %}{{ l.pop(0) }}{{ l }}"), "1[2]");
}

TEST(ChatTemplate, one_template_renders_many_times) {
  const ChatTemplate chat(
      "{% set ns = namespace(n=0) %}{% for m in messages %}"
      "{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}",
      {});
  const ChatMessage messages[] = {{"user", "a"}, {"assistant", "b"}};
  EXPECT_EQ(join_parts(chat.render_chat(messages, {})), "2");
  EXPECT_EQ(join_parts(chat.render_chat(messages, {})), "2");
}

TEST(ChatTemplate, a_fault_says_on_which_line) {
  EXPECT_EQ(error_of("a\nb\n{{ 1 + 'x' }}"),
            "template.runtime: line 3: '+' does not work between integer and string");
  EXPECT_TRUE(error_of("a\n{{ 1 + }}").starts_with("template.syntax: line 2:"));
}

TEST(ChatTemplate, a_template_that_is_not_utf8_is_refused) {
  EXPECT_EQ(kind_of(error_of("a\xff{{ 1 }}")), "template.syntax");
}

}  // namespace
}  // namespace pagoda
