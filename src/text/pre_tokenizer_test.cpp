#include "text/pre_tokenizer.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "text/regex_splitter.h"

namespace pagoda {
namespace {

using Stage = PreTokenizerStage;
using Kind = Stage::Kind;

constexpr const char* kGpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr const char* kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kQwen35 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

std::vector<std::string> split(const PreTokenizerSpec& spec, std::string_view text) {
  const PreTokenizer pre_tokenizer(spec);
  std::vector<uint32_t> ends;
  pre_tokenizer.split(text, ends);
  std::vector<std::string> pieces;
  uint32_t begin = 0;
  for (const uint32_t end : ends) {
    pieces.emplace_back(text.substr(begin, end - begin));
    begin = end;
  }
  EXPECT_EQ(begin, text.size());
  return pieces;
}

Stage regex(const char* pattern) {
  return {.kind = Kind::regex, .pattern = pattern};
}

// Short texts of the characters that the patterns tell apart.
std::string random_text(uint64_t seed) {
  static const char* const kAlphabet[] = {"a",
                                          "S",
                                          "t",
                                          "l",
                                          "e",
                                          "r",
                                          "v",
                                          "'",
                                          "'",
                                          " ",
                                          " ",
                                          "\n",
                                          "\r",
                                          "\t",
                                          "1",
                                          "9",
                                          "!",
                                          "\xC3\xA9",
                                          "\xCC\x81",
                                          "\xE4\xBD\xA0",
                                          "_",
                                          "\0",
                                          "\xC2\xA0",
                                          "\xE3\x80\x80",
                                          "\xF0\x9F\x98\x80",
                                          "\xC5\xBF",
                                          "\xD9\xA1"};
  std::string text;
  const int length = static_cast<int>(uniform_draw(seed, 0, 0) * 14);
  for (int i = 1; i <= length; i++) {
    const auto n =
        static_cast<size_t>(uniform_draw(seed, 0, static_cast<uint64_t>(i)) * std::size(kAlphabet));
    text += *kAlphabet[n] != 0 ? std::string(kAlphabet[n]) : std::string(1, '\0');
  }
  return text;
}

void expect_same(const PreTokenizerSpec& scanner, const PreTokenizerSpec& reference) {
  for (uint64_t seed = 0; seed < 4000; seed++) {
    const std::string text = random_text(seed);
    ASSERT_EQ(split(scanner, text), split(reference, text)) << testing::PrintToString(text);
  }
}

TEST(PreTokenizer, the_gpt2_scanner_is_its_expression) {
  expect_same({{{.kind = Kind::gpt2}}}, {{regex(kGpt2)}});
}

TEST(PreTokenizer, the_llama3_scanner_is_its_expression) {
  expect_same({{{.kind = Kind::llama3}}}, {{regex(kLlama3)}});
}

TEST(PreTokenizer, the_llama3_scanner_with_marks_is_its_expression) {
  expect_same({{{.kind = Kind::llama3, .max_digits = 1, .marks_in_words = true}}},
              {{regex(kQwen35)}});
}

TEST(PreTokenizer, single_digits_are_cut_out_before_the_words) {
  expect_same({{{.kind = Kind::gpt2, .single_digits = true}}},
              {{{.kind = Kind::digits, .single_digits = true}, regex(kGpt2)}});
}

TEST(PreTokenizer, the_digit_scanners_are_their_expressions) {
  expect_same({{{.kind = Kind::digits}}}, {{regex(R"(\p{N}+)")}});
  expect_same({{{.kind = Kind::digits, .single_digits = true}}}, {{regex(R"(\p{N})")}});
}

TEST(PreTokenizer, the_line_scanner_is_its_expression) {
  expect_same({{{.kind = Kind::lines}}}, {{regex(R"([^\n]+|[\n]+)")}});
}

TEST(PreTokenizer, known_patterns_get_scanners) {
  EXPECT_EQ(stage_for_pattern(kGpt2).kind, Kind::gpt2);
  EXPECT_EQ(stage_for_pattern(kLlama3).max_digits, 3);
  EXPECT_TRUE(stage_for_pattern(kQwen35).marks_in_words);
  EXPECT_EQ(stage_for_pattern("\\p{L}+").kind, Kind::regex);
}

TEST(PreTokenizer, bytes_that_are_not_utf8_stay_in_the_pieces) {
  for (const char* text : {"\xFF", "a\xC3", "\xE4\xBD x", "\xF0\x9F\x98", "\x80\x80 \xC0\xAF"}) {
    split({{{.kind = Kind::gpt2}}}, text);
    split({{{.kind = Kind::llama3}}}, text);
    split({{regex(kLlama3)}}, text);
  }
}

TEST(PreTokenizer, a_marker_starts_a_piece_at_each_space) {
  EXPECT_EQ(split({{{.kind = Kind::marker}}}, "a b  c"),
            (std::vector<std::string>{"a", " b", " ", " c"}));
}

TEST(PreTokenizer, matches_join_the_neighbour_that_the_stage_names) {
  const auto pieces = [](Stage::Matches matches) {
    Stage stage = regex("-");
    stage.matches = matches;
    return split({{stage}}, "a--b-");
  };
  using Pieces = std::vector<std::string>;
  EXPECT_EQ(pieces(Stage::Matches::isolated), (Pieces{"a", "-", "-", "b", "-"}));
  EXPECT_EQ(pieces(Stage::Matches::merged_with_previous), (Pieces{"a-", "-", "b-"}));
  EXPECT_EQ(pieces(Stage::Matches::merged_with_next), (Pieces{"a", "-", "-b", "-"}));
  EXPECT_EQ(pieces(Stage::Matches::contiguous), (Pieces{"a", "--", "b", "-"}));
}

TEST(PreTokenizer, the_names_of_gguf_files_are_known_or_not) {
  for (const char* name : {"default", "gpt-2", "smollm", "llama-bpe", "qwen2", "tekken"}) {
    EXPECT_TRUE(gguf_pre_tokenizer(name).known) << name;
  }
  EXPECT_FALSE(gguf_pre_tokenizer("of-tomorrow").known);
}

TEST(PreTokenizer, every_named_expression_compiles) {
  for (const char* name : {"default",
                           "falcon",
                           "deepseek-v3",
                           "deepseek-coder",
                           "gpt-4o",
                           "tekken",
                           "bloom",
                           "viking"}) {
    EXPECT_FALSE(split(gguf_pre_tokenizer(name).spec, "Hello, world 1234!").empty()) << name;
  }
}

TEST(RegexSplitter, a_match_may_be_longer_than_the_first_window) {
  const RegexSplitter splitter("a+");
  const std::string text = std::string(100'000, 'a') + "b" + std::string(5'000, 'a');
  const auto session = splitter.start(text.size());
  std::vector<RegexSplitter::Match> matches;
  EXPECT_EQ(splitter.find_all(*session, text, matches), text.size());
  ASSERT_EQ(matches.size(), 2u);
  EXPECT_EQ(matches[0].end, 100'000u);
  EXPECT_EQ(matches[1].end, text.size());
}

TEST(RegexSplitter, work_that_grows_with_the_square_of_the_text_is_given_up) {
  const RegexSplitter splitter("a(?=a*b)");  // every match would look at all of the text
  const std::string text = std::string(1'000'000, 'a') + "b";
  const auto session = splitter.start(text.size());
  std::vector<RegexSplitter::Match> matches;
  EXPECT_LT(splitter.find_all(*session, text, matches), text.size());
}

TEST(RegexSplitter, backtracking_without_end_is_given_up) {
  const RegexSplitter splitter("(x+x+)+[yz]");
  const std::string text(3000, 'x');
  const auto session = splitter.start(text.size());
  std::vector<RegexSplitter::Match> matches;
  EXPECT_LT(splitter.find_all(*session, text, matches), text.size());
}

TEST(PreTokenizer, what_an_expression_gave_up_on_is_still_cut_into_words) {
  std::string text(3000, 'x');
  text += " two words";
  const auto pieces = split({{regex("(x+x+)+[yz]")}}, text);
  EXPECT_EQ(pieces.size(), 3u);
}

}  // namespace
}  // namespace pagoda
