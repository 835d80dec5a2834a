// What a model file may say wrongly about its tokenizer: every case is refused at load, with the
// component's name (TK-04).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "base/error.h"
#include "text/test_vocabulary.h"
#include "text/tokenizer.h"

namespace pagoda {
namespace {

using testing::HasSubstr;

void expect_error(const Metadata& metadata, std::string_view kind, const std::string& component) {
  HostAllocator allocator;
  try {
    const Tokenizer tokenizer(metadata, allocator);
    ADD_FAILURE() << component << ": loaded";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), kind) << e.message();
    EXPECT_THAT(e.message(), HasSubstr(component));
  }
  EXPECT_EQ(allocator.allocated(), 0) << component;
}

using Change = std::function<void(TestVocabulary&)>;

void expect_invalid_gguf(const std::string& component, const Change& change) {
  TestVocabulary v = TestVocabulary::byte_level();
  change(v);
  expect_error(v.metadata(), "tokenizer.invalid", component);
}

TEST(TokenizerLoad, no_tokenizer_is_said) {
  expect_error(Metadata(), "tokenizer.missing", "tokenizer");
}

TEST(TokenizerLoad, another_kind_of_model_is_named) {
  TestVocabulary v = TestVocabulary::byte_level();
  v.set_text("tokenizer.ggml.model", "bert");
  expect_error(v.metadata(), "tokenizer.unsupported", "bert");
}

TEST(TokenizerLoad, wrong_types_of_elements_are_named) {
  expect_invalid_gguf("tokenizer.ggml.tokens", [](auto& v) {
    v.set("tokenizer.ggml.tokens", std::vector<int64_t>{1, 2});
  });
  expect_invalid_gguf("tokenizer.ggml.token_type", [](auto& v) {
    v.set("tokenizer.ggml.token_type", std::vector<double>(265));
  });
  expect_invalid_gguf("tokenizer.ggml.merges",
                      [](auto& v) { v.set("tokenizer.ggml.merges", std::vector<bool>{true}); });
  expect_invalid_gguf("tokenizer.ggml.bos_token_id",
                      [](auto& v) { v.set("tokenizer.ggml.bos_token_id", 1.5); });
  expect_invalid_gguf("tokenizer.ggml.add_bos_token",
                      [](auto& v) { v.set("tokenizer.ggml.add_bos_token", int64_t{1}); });
}

TEST(TokenizerLoad, missing_and_empty_arrays_are_named) {
  expect_invalid_gguf("tokenizer.ggml.tokens", [](auto& v) {
    v.set("tokenizer.ggml.tokens", std::vector<std::string_view>{});
  });
  TestVocabulary v;
  v.set_text("tokenizer.ggml.model", "gpt2");
  Metadata metadata;
  metadata.insert("tokenizer.ggml.model", std::string_view("gpt2"));
  expect_error(metadata, "tokenizer.invalid", "tokenizer.ggml.tokens");
  metadata.insert("tokenizer.ggml.tokens", std::vector<std::string_view>{"a"});
  expect_error(metadata, "tokenizer.invalid", "tokenizer.ggml.merges");
}

TEST(TokenizerLoad, arrays_shorter_than_the_tokens_are_named) {
  expect_invalid_gguf("tokenizer.ggml.token_type", [](auto& v) {
    v.set("tokenizer.ggml.token_type", std::vector<int64_t>(100, 1));
  });
  TestVocabulary v = TestVocabulary::sentencepiece({"a"});
  v.set("tokenizer.ggml.scores", std::vector<double>(100));
  expect_error(v.metadata(), "tokenizer.invalid", "tokenizer.ggml.scores");
}

TEST(TokenizerLoad, ids_out_of_range_are_named) {
  for (const char* key : {"bos_token_id", "eos_token_id", "eot_token_id", "unknown_token_id"}) {
    for (const int64_t id : {int64_t{265}, int64_t{-2}, int64_t{1} << 40}) {
      expect_invalid_gguf(key, [&](auto& v) { v.set(std::string("tokenizer.ggml.") + key, id); });
    }
  }
}

TEST(TokenizerLoad, the_id_minus_one_is_none) {
  TestVocabulary v = TestVocabulary::byte_level();
  v.set("tokenizer.ggml.bos_token_id", int64_t{0xFFFFFFFF});
  v.set("tokenizer.ggml.add_bos_token", true);
  HostAllocator allocator;
  const Tokenizer tokenizer(v.metadata(), allocator);
  EXPECT_EQ(tokenizer.bos(), -1);
  EXPECT_FALSE(tokenizer.adds_bos());
}

TEST(TokenizerLoad, unknown_token_types_are_named) {
  expect_invalid_gguf("token_type", [](auto& v) { v.add("x", 7); });
  expect_invalid_gguf("token_type", [](auto& v) { v.add("x", -1); });
}

TEST(TokenizerLoad, a_byte_token_must_name_its_byte) {
  for (const char* text : {"<0xG0>", "<0x4>", "x", "", "<0x041>"}) {
    TestVocabulary v = TestVocabulary::sentencepiece({"a"});
    v.add(text, 6);
    expect_error(v.metadata(), "tokenizer.invalid", "tokenizer.ggml.tokens");
  }
}

TEST(TokenizerLoad, a_merge_of_missing_tokens_is_named) {
  expect_invalid_gguf("merges: rule 6", [](auto& v) { v.add_merge("hello x"); });
  expect_invalid_gguf("merges: rule 6", [](auto& v) { v.add_merge("nothere h"); });
}

TEST(TokenizerLoad, a_merge_is_two_symbols) {
  for (const char* rule : {"hello", "hello ", "", " "}) {
    expect_invalid_gguf("tokenizer.ggml.merges", [&](auto& v) { v.add_merge(rule); });
  }
}

TEST(TokenizerLoad, scores_are_finite) {
  for (const double score : {std::nan(""), double{INFINITY}}) {
    TestVocabulary v = TestVocabulary::sentencepiece({"a"});
    v.add("b", 1, score);
    expect_error(v.metadata(), "tokenizer.invalid", "scores");
  }
}

TEST(TokenizerLoad, an_added_token_has_a_bounded_size) {
  expect_invalid_gguf("added tokens", [](auto& v) { v.add(std::string(5000, 'x'), 4); });
}

// A tokenizer.json with one text of it changed.
void expect_json_error(std::string_view kind,
                       const std::string& component,
                       const std::string& from,
                       const std::string& to) {
  std::string json = s_tok_json();
  const size_t at = json.find(from);
  ASSERT_NE(at, std::string::npos) << from;
  json.replace(at, from.size(), to);
  Metadata metadata;
  metadata.insert("tokenizer.json", std::string_view(json));
  expect_error(metadata, kind, component);
}

TEST(TokenizerJsonLoad, a_template_that_names_an_absent_token_is_refused) {
  expect_json_error("tokenizer.invalid",
                    "post_processor",
                    R"({"id":"<s>","type_id":0})",
                    R"({"id":"<absent>","type_id":0})");
  expect_json_error("tokenizer.invalid", "post_processor", R"("ids":[1])", R"("ids":[100000])");
  expect_json_error("tokenizer.invalid", "post_processor", R"("ids":[1])", R"("ids":[-1])");
}

TEST(TokenizerJsonLoad, a_merge_whose_result_is_no_token_is_refused) {
  expect_json_error("tokenizer.invalid", "merges", R"("h e")", R"("h z")");
  expect_json_error("tokenizer.invalid", "merges", R"("h e")", R"(["h"])");
  expect_json_error("tokenizer.invalid", "merges", R"("h e")", R"(7)");
}

TEST(TokenizerJsonLoad, a_fixed_length_of_zero_is_refused) {
  expect_json_error("tokenizer.invalid",
                    "pre_tokenizer",
                    R"("pre_tokenizer":null)",
                    R"("pre_tokenizer":{"type":"FixedLength","length":0})");
}

TEST(TokenizerJsonLoad, a_truncation_stride_of_its_length_is_refused) {
  expect_json_error("tokenizer.invalid",
                    "truncation",
                    R"("truncation":null)",
                    R"("truncation":{"max_length":4,"stride":4})");
}

TEST(TokenizerJsonLoad, a_bad_charsmap_is_refused) {
  for (const char* map : {"", "AAA", "!!!!", "/////w==", "AQAAAA=="}) {
    expect_json_error("tokenizer.invalid",
                      "normalizer",
                      R"({"type":"Prepend")",
                      std::string(R"({"type":"Precompiled","precompiled_charsmap":")") + map +
                          R"("},{"type":"Prepend")");
  }
}

TEST(TokenizerJsonLoad, a_strip_of_more_than_the_added_space_is_refused) {
  expect_json_error("tokenizer.invalid", "decoder", R"("start":1)", R"("start":9)");
  expect_json_error("tokenizer.invalid", "decoder", R"("stop":0)", R"("stop":-3)");
}

TEST(TokenizerJsonLoad, ids_that_are_taken_or_far_away_are_refused) {
  expect_json_error("tokenizer.invalid",
                    "added_tokens",
                    R"("id":2,"content":"</s>")",
                    R"("id":1,"content":"</s>")");
  expect_json_error("tokenizer.invalid",
                    "added_tokens",
                    R"("id":2,"content":"</s>")",
                    R"("id":2000000000,"content":"</s>")");
  expect_json_error("tokenizer.invalid", "model.vocab", R"("<s>":1)", R"("<s>":0)");
  expect_json_error("tokenizer.invalid", "model.vocab", R"("<s>":1)", R"("<s>":-1)");
  expect_json_error("tokenizer.invalid", "model.vocab", R"("<s>":1)", R"("<s>":1.5)");
}

TEST(TokenizerJsonLoad, a_pattern_that_does_not_compile_is_refused) {
  const std::string json =
      R"({"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":"(a"},
      "behavior":"Isolated"},{"type":"ByteLevel","add_prefix_space":false,"use_regex":false}]},
      "model":{"type":"BPE","vocab":{"a":0},"merges":[]}})";
  Metadata metadata;
  metadata.insert("tokenizer.json", std::string_view(json));
  expect_error(metadata, "tokenizer.invalid", "pre_tokenizer");
}

TEST(TokenizerJsonLoad, broken_json_is_refused) {
  for (const char* json : {"", "{", "[]", "{}", "\"x\"", R"({"model":7})", R"({"model":{}})"}) {
    Metadata metadata;
    metadata.insert("tokenizer.json", std::string_view(json));
    HostAllocator allocator;
    EXPECT_THROW(Tokenizer(metadata, allocator), Error) << json;
  }
}

TEST(TokenizerJsonLoad, other_models_are_named) {
  expect_json_error("tokenizer.unsupported", "Unigram", R"("type":"BPE")", R"("type":"Unigram")");
  expect_json_error("tokenizer.unsupported",
                    "Whitespace",
                    R"("pre_tokenizer":null)",
                    R"("pre_tokenizer":{"type":"Whitespace"})");
}

}  // namespace
}  // namespace pagoda
