#include "text/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "text/test_vocabulary.h"

namespace pagoda {
namespace {

using testing::ElementsAre;
using testing::SizeIs;

constexpr int32_t kHello = 259, kSpaceHello = 260, kTwoSpaces = 261, kStart = 262, kEnd = 263,
                  kTag = 264;

struct ByteLevel : testing::Test {
  HostAllocator allocator;
  Tokenizer tokenizer{TestVocabulary::byte_level().metadata(), allocator};
};

struct SentencePiece : testing::Test {
  HostAllocator allocator;
  Tokenizer tokenizer{TestVocabulary::sentencepiece(sentencepiece_pieces()).metadata(), allocator};
};

struct STok : testing::Test {
  HostAllocator allocator;
  std::string json = s_tok_json();
  Tokenizer tokenizer = make(json, allocator);
  static Tokenizer make(std::string_view json, Allocator& allocator) {
    Metadata metadata;
    metadata.insert("tokenizer.json", json);
    return Tokenizer(metadata, allocator);
  }
};

TEST_F(ByteLevel, merges_follow_the_ranks) {
  EXPECT_THAT(tokenizer.encode("hello hello"), ElementsAre(kHello, kSpaceHello));
}

TEST_F(ByteLevel, the_last_space_goes_with_the_word) {
  EXPECT_THAT(tokenizer.encode("   hello"), ElementsAre(kTwoSpaces, kSpaceHello));
}

TEST_F(ByteLevel, plain_text_never_becomes_a_control_token) {
  const auto ids = tokenizer.encode("<|end|>");
  EXPECT_THAT(ids, SizeIs(7));
  EXPECT_EQ(tokenizer.decode(ids), "<|end|>");
}

TEST_F(ByteLevel, special_text_becomes_control_tokens_where_it_may) {
  EXPECT_THAT(tokenizer.encode("<|end|>hello", {.parse_special = true}), ElementsAre(kEnd, kHello));
}

TEST_F(ByteLevel, user_defined_tokens_are_found_in_any_text) {
  EXPECT_THAT(tokenizer.encode("hello<tag>hello"), ElementsAre(kHello, kTag, kHello));
}

// TK-02
TEST_F(ByteLevel, content_that_names_the_end_of_turn_is_letters_and_comes_back) {
  const TextPart parts[] = {{"<|start|>", TextOrigin::markup},
                            {"<|end|>", TextOrigin::plain},
                            {"<|end|>", TextOrigin::markup}};
  const auto ids = tokenizer.encode_parts(parts);
  EXPECT_EQ(std::count(ids.begin(), ids.end(), kEnd), 1);
  EXPECT_EQ(ids.back(), kEnd);
  EXPECT_EQ(tokenizer.decode({ids.data() + 1, ids.size() - 2}), "<|end|>");
}

TEST_F(ByteLevel, a_control_token_over_a_border_is_letters) {
  const TextPart parts[] = {{"<|en", TextOrigin::markup}, {"d|>", TextOrigin::plain}};
  EXPECT_THAT(tokenizer.encode_parts(parts), SizeIs(7));
}

TEST_F(ByteLevel, a_border_between_parts_changes_no_id) {
  const TextPart parts[] = {{"he", TextOrigin::markup}, {"llo", TextOrigin::plain}};
  EXPECT_THAT(tokenizer.encode_parts(parts), ElementsAre(kHello));
}

// TK-05
TEST_F(ByteLevel, there_is_one_bos_when_the_template_writes_it_too) {
  const TextPart parts[] = {{"<|start|>", TextOrigin::markup}, {"hello", TextOrigin::plain}};
  EXPECT_THAT(tokenizer.encode_parts(parts, {.add_bos = true}), ElementsAre(kStart, kHello));
}

// TK-05
TEST_F(ByteLevel, raw_text_gets_one_bos) {
  EXPECT_THAT(tokenizer.encode("hello", {.add_bos = true}), ElementsAre(kStart, kHello));
  EXPECT_THAT(tokenizer.encode("", {.add_bos = true}), ElementsAre(kStart));
}

TEST_F(ByteLevel, every_byte_comes_back) {
  std::string text;
  for (int i = 0; i < 512; i++) text += static_cast<char>(i * 37);
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
}

TEST_F(ByteLevel, repeated_words_get_the_same_ids_as_alone) {
  std::string text;
  std::vector<int32_t> ids;
  for (int i = 0; i < 300; i++) {
    const std::string word = " w" + std::to_string(i % 7) + "hello";
    text += word;
    const auto alone = tokenizer.encode(word);
    ids.insert(ids.end(), alone.begin(), alone.end());
  }
  EXPECT_EQ(tokenizer.encode(text), ids);
}

TEST_F(ByteLevel, decoding_skips_or_keeps_control_tokens) {
  const std::vector<int32_t> ids = {kStart, kHello, kEnd};
  EXPECT_EQ(tokenizer.decode(ids), "hello");
  EXPECT_EQ(tokenizer.decode(ids, SpecialTokens::keep), "<|start|>hello<|end|>");
}

TEST_F(ByteLevel, ids_outside_the_vocabulary_have_no_bytes) {
  EXPECT_EQ(tokenizer.decode(std::vector<int32_t>{-1, 1 << 30, kHello}), "hello");
  EXPECT_FALSE(tokenizer.is_control(-1));
}

TEST_F(ByteLevel, tokens_are_found_by_their_bytes) {
  EXPECT_EQ(tokenizer.find(" hello"), kSpaceHello);
  EXPECT_EQ(tokenizer.find("<|end|>"), kEnd);
  EXPECT_EQ(tokenizer.find("no such token"), -1);
}

TEST_F(ByteLevel, end_of_generation_holds_eos_and_known_names) {
  EXPECT_THAT(tokenizer.end_of_generation(), ElementsAre(kEnd));
  EXPECT_TRUE(tokenizer.is_end_of_generation(kEnd));
  EXPECT_FALSE(tokenizer.is_end_of_generation(kHello));
}

TEST_F(ByteLevel, planned_bytes_are_allocated_bytes) {
  EXPECT_EQ(Tokenizer::vocabulary_bytes(TestVocabulary::byte_level().metadata()),
            allocator.allocated(MemoryTag::vocabulary));
  EXPECT_EQ(allocator.allocated(), allocator.allocated(MemoryTag::vocabulary));
}

TEST(Tokenizer, a_byte_without_a_token_is_left_out_and_its_neighbours_merge) {
  TestVocabulary v;
  v.set_text("tokenizer.ggml.model", "gpt2");
  for (const char* token : {"a", "b", "ab"}) v.add(token);
  v.add_merge("a b");
  HostAllocator allocator;
  const Tokenizer tokenizer(v.metadata(), allocator);
  EXPECT_THAT(tokenizer.encode("axb"), ElementsAre(2));
}

TEST(Tokenizer, a_whole_piece_that_is_a_token_needs_no_merges_where_the_model_says_so) {
  TestVocabulary v = TestVocabulary::byte_level();
  const int32_t unmerged = v.add("xyz");
  HostAllocator allocator;
  EXPECT_THAT(Tokenizer(v.metadata(), allocator).encode("xyz"), SizeIs(3));
  v.set_text("tokenizer.ggml.pre", "llama-bpe");
  EXPECT_THAT(Tokenizer(v.metadata(), allocator).encode("xyz"), ElementsAre(unmerged));
}

TEST(Tokenizer, the_longest_added_token_wins_and_the_leftmost_before_it) {
  TestVocabulary v = TestVocabulary::byte_level();
  const int32_t ab = v.add("<ab>", 4), abc = v.add("<ab>c", 4), overlap = v.add(">c", 4);
  HostAllocator allocator;
  const Tokenizer tokenizer(v.metadata(), allocator);
  EXPECT_THAT(tokenizer.encode("<ab>c<ab>>c"), ElementsAre(abc, ab, overlap));
}

TEST(Tokenizer, a_normal_token_outside_the_byte_alphabet_is_never_text) {
  TestVocabulary v = TestVocabulary::byte_level();
  const std::string joiner = "\xE2\x80\x8D";
  v.add(joiner);
  const std::string a = TestVocabulary::letter(0xE2), b = TestVocabulary::letter(0x80),
                    c = TestVocabulary::letter(0x8D);
  v.add(a + b);
  const int32_t merged = v.add(a + b + c);
  v.add_merge(a + " " + b);
  v.add_merge(a + b + " " + c);
  HostAllocator allocator;
  EXPECT_THAT(Tokenizer(v.metadata(), allocator).encode(joiner), ElementsAre(merged));
}

TEST_F(SentencePiece, scores_decide_and_a_space_comes_first) {
  const int32_t the = tokenizer.find(" the");
  EXPECT_THAT(tokenizer.encode("the the"), ElementsAre(the, the));
}

TEST_F(SentencePiece, a_character_without_a_token_is_its_bytes) {
  EXPECT_THAT(tokenizer.encode("\xE4\xBD\xA0"),
              ElementsAre(tokenizer.find(" "), 3 + 0xE4, 3 + 0xBD, 3 + 0xA0));
}

TEST_F(SentencePiece, the_name_of_a_byte_token_is_letters) {
  const auto ids = tokenizer.encode("<0x41>");
  EXPECT_EQ(tokenizer.decode(ids), "<0x41>");
}

TEST_F(SentencePiece, the_space_marker_in_a_text_is_a_space) {
  EXPECT_EQ(tokenizer.encode("a\xE2\x96\x81the"), tokenizer.encode("a the"));
}

TEST_F(SentencePiece, control_text_in_the_vocabulary_is_not_merged_to) {
  TestVocabulary v = TestVocabulary::sentencepiece({"<", "s>", "s", ">"});
  HostAllocator other;
  const Tokenizer with_parts(v.metadata(), other);
  const auto ids = with_parts.encode("<s>");
  EXPECT_EQ(
      std::count_if(ids.begin(), ids.end(), [&](int32_t i) { return with_parts.is_control(i); }),
      0);
}

TEST_F(SentencePiece, planned_bytes_are_allocated_bytes) {
  EXPECT_EQ(
      Tokenizer::vocabulary_bytes(TestVocabulary::sentencepiece(sentencepiece_pieces()).metadata()),
      allocator.allocated(MemoryTag::vocabulary));
}

TEST_F(STok, planned_bytes_are_allocated_bytes) {
  Metadata metadata;
  metadata.insert("tokenizer.json", std::string_view(json));
  EXPECT_EQ(Tokenizer::vocabulary_bytes(metadata), allocator.allocated(MemoryTag::vocabulary));
}

TEST_F(STok, the_template_gives_bos) {
  EXPECT_TRUE(tokenizer.adds_bos());
  EXPECT_EQ(tokenizer.bos(), 1);
  EXPECT_THAT(tokenizer.encode("", {.add_bos = true}), ElementsAre(1));
}

TEST_F(STok, each_stretch_between_control_tokens_gets_its_space) {
  const int32_t the = tokenizer.find(" the");
  EXPECT_THAT(tokenizer.encode("the</s>the", {.parse_special = true}), ElementsAre(the, 2, the));
}

// TK-03
const char* const kRoundTrips[] = {
    "", "a", " a", "  a", "\na", "a  the  ", "\xE4\xBD\xA0", "\xFF\xE4\xBD"};

TEST_F(STok, encoding_and_decoding_gives_the_text_back) {
  for (const std::string text : kRoundTrips)
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
  const std::string with_zero("a\0b", 3);
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(with_zero)), with_zero);
}

TEST_F(SentencePiece, encoding_and_decoding_gives_the_text_back) {
  for (const std::string text : kRoundTrips)
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
  const std::string with_zero("a\0b", 3);
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(with_zero)), with_zero);
}

TEST_F(ByteLevel, encoding_and_decoding_gives_the_text_back) {
  for (const std::string text : kRoundTrips)
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
  const std::string with_zero("a\0b", 3);
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(with_zero)), with_zero);
}

TEST_F(STok, a_character_outside_the_vocabulary_is_three_byte_tokens) {
  EXPECT_THAT(tokenizer.encode("\xE4\xBD\xA0"),
              ElementsAre(tokenizer.find(" "), 3 + 0xE4, 3 + 0xBD, 3 + 0xA0));
}

TEST(Tokenizer, nfc_is_applied_where_the_file_asks_for_it) {
  const std::string json =
      R"({"normalizer":{"type":"NFC"},"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false},
      "decoder":{"type":"ByteLevel"},"model":{"type":"BPE","vocab":{")" +
      TestVocabulary::letter(0xC3) + R"(":0,")" + TestVocabulary::letter(0xA9) +
      R"(":1,"e":2},"merges":[]}})";
  Metadata metadata;
  metadata.insert("tokenizer.json", std::string_view(json));
  HostAllocator allocator;
  const Tokenizer tokenizer(metadata, allocator);
  EXPECT_THAT(tokenizer.encode("e\xCC\x81"), ElementsAre(0, 1));
}

TEST(Tokenizer, an_added_token_swallows_the_spaces_that_it_strips) {
  std::string json = s_tok_json();
  const std::string plain = R"({"id":2,"content":"</s>","special":true})";
  json.replace(json.find(plain),
               plain.size(),
               R"({"id":2,"content":"</s>","special":false,"lstrip":true,"rstrip":true})");
  Metadata metadata;
  metadata.insert("tokenizer.json", std::string_view(json));
  HostAllocator allocator;
  const Tokenizer tokenizer(metadata, allocator);
  const int32_t the = tokenizer.find(" the");
  EXPECT_THAT(tokenizer.encode("the \n </s> \t the"), ElementsAre(the, 2, the));
}

TEST(Tokenizer, a_text_is_refused_when_it_has_no_31_bit_size) {
  HostAllocator allocator;
  const Tokenizer tokenizer(TestVocabulary::byte_level().metadata(), allocator);
  const char byte = 'a';
  try {
    // The size alone is looked at.
    tokenizer.encode(std::string_view(&byte, size_t{1} << 31));
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), "tokenizer.text_too_long");
  }
}

}  // namespace
}  // namespace pagoda
