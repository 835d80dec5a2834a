#include "app/inspect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "formats/gguf_writer.h"
#include "formats/test_folder.h"

namespace pagoda {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

struct Inspect : testing::Test {
  TestFolder folder;
  std::unique_ptr<Checkpoint> model;

  Inspect() {
    GgufWriter w;
    w.set("general.architecture", "unheard-of");
    w.set("x.epsilon", 0.5f);
    w.set("x.flag", true);
    w.set("x.text", std::string(100, 't') + "\n");
    w.set("x.bad", "a\xff");
    w.set("x.few", std::vector<int32_t>{1, 2});
    w.set("x.many", std::vector<int32_t>(1000, 7));
    w.set("x.words", std::vector<std::string>(9, "word"));
    w.add_f32("a.weight", {2, 3}, std::vector<float>(6));
    w.add_copy("b.weight", DType::q8_0, {2, 32}, std::vector<std::byte>(68));
    w.write(folder.path() / "m.gguf");
    model = open_checkpoint(folder.path() / "m.gguf");
  }
};

TEST_F(Inspect, the_text_has_metadata_and_tensors_with_long_values_cut) {
  const std::string text = inspect_text(*model);
  EXPECT_THAT(text, HasSubstr("format: gguf"));
  EXPECT_THAT(text, HasSubstr("tensors (2; 70 elements, 92 bytes)"));
  EXPECT_THAT(text, HasSubstr("b.weight q8_0            2 x 32           68"));
  EXPECT_THAT(text, HasSubstr("[1000] 7, 7, 7, 7, 7, 7, 7, 7, ..."));
  EXPECT_THAT(text, HasSubstr("[2] 1, 2\n"));
  EXPECT_THAT(text, HasSubstr("... (101 bytes)"));
  EXPECT_THAT(text, HasSubstr("\"a\\xff\""));
  EXPECT_THAT(text, Not(HasSubstr(std::string(65, 't'))));
}

TEST_F(Inspect, an_unknown_family_is_shown_with_the_reason) {
  EXPECT_THAT(inspect_text(*model), HasSubstr("config: not understood"));
  const json document = json::parse(inspect_json(*model));
  EXPECT_EQ(document["config"]["error"]["kind"], "model.unsupported_family");
}

TEST_F(Inspect, the_json_has_everything) {
  const json document = json::parse(inspect_json(*model));
  EXPECT_EQ(document["format"], "gguf");
  EXPECT_EQ(document["file_bytes"], model->file_bytes());
  EXPECT_EQ(document["metadata"]["x.epsilon"], 0.5);
  EXPECT_EQ(document["metadata"]["x.flag"], true);
  EXPECT_EQ(document["metadata"]["x.text"], std::string(100, 't') + "\n");
  EXPECT_EQ(document["metadata"]["x.bad"], "a\xef\xbf\xbd");
  EXPECT_EQ(document["metadata"]["x.few"], json({1, 2}));
  EXPECT_EQ(document["metadata"]["x.many"]["length"], 1000);
  EXPECT_EQ(document["metadata"]["x.many"]["first"].size(), 8u);
  EXPECT_EQ(document["metadata"]["x.words"]["first"][0], "word");
  EXPECT_EQ(document["num_tensors"], 2);
  EXPECT_EQ(document["num_elements"], 70);
  EXPECT_EQ(document["tensor_bytes"], 92);
  EXPECT_EQ(document["tensors"][1],
            json({{"name", "b.weight"}, {"dtype", "q8_0"}, {"shape", {2, 32}}, {"bytes", 68}}));
}

TEST_F(Inspect, a_string_is_cut_between_characters) {
  const json document =
      json::parse(inspect_json(*model, {.max_json_bytes = 50}))["metadata"]["x.text"];
  EXPECT_EQ(document["bytes"], 101);
  EXPECT_EQ(document["first"], std::string(50, 't'));
}

}  // namespace
}  // namespace pagoda
