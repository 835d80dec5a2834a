// Holds the interpreter against Python's jinja2: tests/golden/templates.json, made by
// tools/make_template_goldens.py.
#include <gtest/gtest.h>

#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "text/chat_template.h"

namespace pagoda {
namespace {

using Json = nlohmann::ordered_json;

Json read_goldens() {
  std::ifstream file(PAGODA_SOURCE_DIR "/tests/golden/templates.json");
  return Json::parse(file);
}

std::tm parse_time(const std::string& iso) {
  std::tm time = {};
  strptime(iso.c_str(), "%Y-%m-%dT%H:%M:%S", &time);
  return time;
}

// The text, or "<error kind>"; the words of raise_exception behind "<raised>".
std::string render_golden(const Json& file, const Json& golden) {
  const auto shared = [&](const char* key) -> const Json& {
    return file["shared"][key][golden[key].get<size_t>()];
  };
  try {
    const ChatTemplate chat(shared("template").get<std::string>(),
                            {.bos_token = file["bos_token"].get<std::string>(),
                             .eos_token = file["eos_token"].get<std::string>()});
    ChatTemplate::Request request;
    if (!shared("tools").is_null()) request.tools = &shared("tools");
    request.kwargs = &shared("kwargs");
    request.add_generation_prompt = golden["add_generation_prompt"].get<bool>();
    request.now = parse_time(file["now"].get<std::string>());
    const Json& messages = shared("messages");
    return join_parts(chat.render(messages.is_null() ? Json::array() : messages, request));
  } catch (const Error& error) {
    const std::string kind = error.kind().substr(error.kind().find('.') + 1);
    return fmt::format("<{}>{}", kind, kind == "raised" ? error.message() : "");
  }
}

TEST(ChatTemplateGolden, every_template_and_expression_renders_as_python_jinja2_does) {
  const Json file = read_goldens();
  ASSERT_GT(file["goldens"].size(), 350u);
  for (const Json& golden : file["goldens"]) {
    std::string expected;
    if (golden.contains("text")) {
      expected = golden["text"].get<std::string>();
    } else {
      expected = fmt::format(
          "<{}>{}", golden["error"].get<std::string>(), golden.value("message", std::string()));
    }
    EXPECT_EQ(render_golden(file, golden), expected) << golden["name"];
  }
}

}  // namespace
}  // namespace pagoda
