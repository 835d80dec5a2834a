// The real models' tokenizers against golden ids from Hugging Face tokenizers
// (tools/make_tokenizer_goldens.py).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "formats/checkpoint.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"

namespace pagoda {
namespace {

std::filesystem::path models_folder() {
  if (const char* folder = std::getenv("PAGODA_MODELS")) return folder;
  const char* home = std::getenv("HOME");
  return std::filesystem::path(home != nullptr ? home : ".") / ".cache/pagoda/models";
}

class TokenizerGolden : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const auto path = std::filesystem::path(PAGODA_SOURCE_DIR) / "tests/golden" / GetParam();
    std::ifstream file(path);
    ASSERT_TRUE(file) << path;
    golden_ = nlohmann::json::parse(file);
    const auto model = models_folder() / golden_["model"].get<std::string>();
    if (!std::filesystem::exists(model)) GTEST_SKIP() << "no model file " << model;
    checkpoint_ = open_checkpoint(model);
    tokenizer_ = std::make_unique<Tokenizer>(checkpoint_->metadata(), allocator_);
  }

  HostAllocator allocator_;
  nlohmann::json golden_;
  std::unique_ptr<Checkpoint> checkpoint_;
  std::unique_ptr<Tokenizer> tokenizer_;
};

TEST_P(TokenizerGolden, plain_text_has_the_reference_ids) {
  for (const auto& golden : golden_["cases"]) {
    const auto text = golden["text"].get<std::string>();
    const auto ids = golden["ids"].get<std::vector<int32_t>>();
    EXPECT_EQ(tokenizer_->encode(text), ids) << golden;
  }
}

TEST_P(TokenizerGolden, markup_has_the_reference_ids) {
  for (const auto& golden : golden_["cases"]) {
    const auto text = golden["text"].get<std::string>();
    const auto ids = golden.value("markup_ids", golden["ids"]).get<std::vector<int32_t>>();
    EXPECT_EQ(tokenizer_->encode(text, {.parse_special = true}), ids) << golden;
  }
}

TEST_P(TokenizerGolden, what_is_allocated_is_what_was_planned) {
  EXPECT_EQ(allocator_.allocated(MemoryTag::vocabulary),
            Tokenizer::vocabulary_bytes(checkpoint_->metadata()));
}

// Characters that the vocabulary cannot spell, and U+2581, which is a space to SentencePiece.
bool is_lossy(const Tokenizer& tokenizer, const std::string& text) {
  if (text.find("\xE2\x96\x81") != std::string::npos) return true;
  for (const char c : text) {
    if (tokenizer.encode(std::string_view(&c, 1)).empty()) return true;
  }
  return false;
}

TEST_P(TokenizerGolden, decoding_gives_the_text_back) {
  for (const auto& golden : golden_["cases"]) {
    const auto text = golden["text"].get<std::string>();
    const auto ids = tokenizer_->encode(text);
    if (is_lossy(*tokenizer_, text)) continue;
    EXPECT_EQ(tokenizer_->decode(ids), text) << golden;
  }
}

TEST_P(TokenizerGolden, the_detokenizer_gives_the_text_back_one_id_at_a_time) {
  for (const auto& golden : golden_["cases"]) {
    const auto text = golden["text"].get<std::string>();
    if (is_lossy(*tokenizer_, text)) continue;
    Detokenizer detokenizer(*tokenizer_, Detokenizer::Start::of_text);
    std::string joined;
    for (const int32_t id : tokenizer_->encode(text)) joined += detokenizer.push(id);
    EXPECT_EQ(joined, text) << golden;
    EXPECT_EQ(detokenizer.num_held_bytes(), 0u) << golden;
  }
}

INSTANTIATE_TEST_SUITE_P(Models,
                         TokenizerGolden,
                         testing::Values("tokenizer_smollm2.json", "tokenizer_gemma3.json"),
                         [](const auto& info) {
                           return std::string(info.param).find("gemma") != std::string::npos
                                      ? "gemma3"
                                      : "smollm2";
                         });

}  // namespace
}  // namespace pagoda
