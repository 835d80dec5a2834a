#include "text/detokenizer.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "text/test_vocabulary.h"

namespace pagoda {
namespace {

// Ids 0..255 are bytes.
struct DetokenizerTest : testing::Test {
  HostAllocator allocator;
  Tokenizer tokenizer{TestVocabulary::byte_level().metadata(), allocator};

  std::string push_bytes(Detokenizer& detokenizer, std::string_view bytes) {
    std::string text;
    for (const char byte : bytes) text += detokenizer.push(static_cast<uint8_t>(byte));
    return text;
  }
};

TEST_F(DetokenizerTest, a_character_comes_when_its_last_byte_does) {
  Detokenizer d(tokenizer);
  EXPECT_EQ(d.push(0xF0), "");
  EXPECT_EQ(d.push(0x9F), "");
  EXPECT_EQ(d.push(0x98), "");
  EXPECT_EQ(d.num_held_bytes(), 3u);
  EXPECT_EQ(d.push(0x80), "\xF0\x9F\x98\x80");
  EXPECT_EQ(d.num_held_bytes(), 0u);
}

TEST_F(DetokenizerTest, a_broken_character_is_replaced_when_it_is_certain) {
  Detokenizer d(tokenizer);
  EXPECT_EQ(push_bytes(d, "\xE4\xBD"), "");
  EXPECT_EQ(d.push('a'),
            "\xEF\xBF\xBD"
            "a");
  EXPECT_EQ(d.push(0xFF), "\xEF\xBF\xBD");
  EXPECT_EQ(d.push(0x80), "\xEF\xBF\xBD");
}

TEST_F(DetokenizerTest, overlong_forms_and_surrogates_are_broken) {
  Detokenizer d(tokenizer);
  EXPECT_EQ(push_bytes(d, "\xC0\xAF"), "\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(push_bytes(d, "\xED\xA0\x80"), "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(push_bytes(d, "\xF4\x90"), "\xEF\xBF\xBD\xEF\xBF\xBD");
}

TEST_F(DetokenizerTest, a_character_cut_off_at_the_end_is_left_out) {
  Detokenizer d(tokenizer);
  EXPECT_EQ(push_bytes(d, "a\xE4\xBD"), "a");
  d.finish();
  EXPECT_EQ(d.num_held_bytes(), 0u);
  EXPECT_EQ(d.push('b'), "b");
}

TEST_F(DetokenizerTest, control_tokens_have_no_text_unless_kept) {
  const int32_t end = tokenizer.find("<|end|>");
  EXPECT_EQ(Detokenizer(tokenizer).push(end), "");
  EXPECT_EQ(Detokenizer(tokenizer, Detokenizer::Start::after_prompt, SpecialTokens::keep).push(end),
            "<|end|>");
}

TEST_F(DetokenizerTest, random_bytes_become_whole_characters_and_hold_three_at_most) {
  for (uint64_t seed = 0; seed < 300; seed++) {
    Detokenizer d(tokenizer);
    std::string bytes, text;
    for (uint64_t i = 0; i < 30; i++) {
      const double draw = uniform_draw(seed, 0, i);
      // Mostly bytes of the range where sequences start and go on.
      const auto byte = static_cast<uint8_t>(draw < 0.2 ? 'a' : 0x80 + draw * 0x7F);
      bytes += static_cast<char>(byte);
      const std::string more = d.push(byte);
      for (size_t at = 0; at < more.size();) {
        const Utf8Start start = inspect_utf8(more, at);
        ASSERT_GT(start.length, 0u);
        at += start.length;
      }
      text += more;
      ASSERT_LE(d.num_held_bytes(), 3u);
    }
    // Nothing of what was well-formed is lost.
    for (size_t at = 0; at + d.num_held_bytes() < bytes.size();) {
      const Utf8Start start = inspect_utf8(bytes, at);
      if (start.length > 0) {
        ASSERT_NE(text.find(bytes.substr(at, start.length)), std::string::npos);
      }
      at += start.length > 0 ? start.length : start.broken;
    }
  }
}

struct SpaceTest : testing::Test {
  HostAllocator allocator;
  Tokenizer tokenizer{TestVocabulary::sentencepiece(sentencepiece_pieces()).metadata(), allocator};
  int32_t the = tokenizer.find(" the");
};

TEST_F(SpaceTest, the_first_space_of_a_text_is_the_tokenizers_own) {
  Detokenizer d(tokenizer, Detokenizer::Start::of_text);
  EXPECT_EQ(d.push(tokenizer.bos()), "");
  EXPECT_EQ(d.push(the), "the");
  EXPECT_EQ(d.push(the), " the");
}

TEST_F(SpaceTest, an_answer_keeps_its_first_space) {
  Detokenizer d(tokenizer, Detokenizer::Start::after_prompt);
  EXPECT_EQ(d.push(the), " the");
}

}  // namespace
}  // namespace pagoda
