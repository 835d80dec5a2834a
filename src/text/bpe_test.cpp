#include "text/bpe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/random.h"
#include "text/test_vocabulary.h"
#include "text/tokenizer.h"

namespace pagoda {
namespace {

// A vocabulary of three letters and random concatenations of what is there already.
struct RandomBpe {
  std::vector<std::string> tokens = {"a", "b", "c"};
  std::vector<std::pair<std::string, std::string>> merges;

  explicit RandomBpe(uint64_t seed) {
    for (uint64_t i = 0; merges.size() < 25; i++) {
      const auto pick = [&](uint32_t choice) {
        return tokens[static_cast<size_t>(uniform_draw(seed, choice, i) *
                                          static_cast<double>(tokens.size()))];
      };
      const std::string left = pick(0), right = pick(1);
      if (left.size() + right.size() > 9) continue;
      if (std::find(tokens.begin(), tokens.end(), left + right) != tokens.end()) continue;
      tokens.push_back(left + right);
      merges.emplace_back(left, right);
    }
  }
};

std::string random_letters(uint64_t seed, size_t length) {
  std::string text;
  for (size_t i = 0; i < length; i++) text += static_cast<char>('a' + 3 * uniform_draw(seed, 9, i));
  return text;
}

// BPE as its paper has it: find the best pair anywhere, leftmost first, merge that one, again.
template <typename Rank>
std::vector<std::string> merge_slowly(std::string_view text, Rank rank) {
  std::vector<std::string> symbols;
  for (const char c : text) symbols.emplace_back(1, c);
  for (;;) {
    double best = INFINITY;
    size_t place = 0;
    for (size_t i = 0; i + 1 < symbols.size(); i++) {
      const double r = rank(symbols[i], symbols[i + 1]);
      if (r < best) {
        best = r;
        place = i;
      }
    }
    if (best == INFINITY) return symbols;
    symbols[place] += symbols[place + 1];
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(place) + 1);
  }
}

std::vector<std::string> pieces(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<std::string> result;
  for (const int32_t id : tokenizer.encode(text)) result.emplace_back(tokenizer.token_bytes(id));
  return result;
}

TEST(Bpe, ranked_merges_equal_the_slow_algorithm_for_short_and_long_pieces) {
  for (uint64_t seed = 0; seed < 60; seed++) {
    const RandomBpe random(seed);
    TestVocabulary v;
    v.set_text("tokenizer.ggml.model", "gpt2");
    v.set_text("tokenizer.ggml.pre", "gpt-2");
    for (const auto& token : random.tokens) v.add(token);
    std::map<std::pair<std::string, std::string>, int> ranks;
    for (const auto& [left, right] : random.merges) {
      v.add_merge(left + " " + right);
      ranks.emplace(std::pair(left, right), static_cast<int>(ranks.size()));
    }
    HostAllocator allocator;
    const Tokenizer tokenizer(v.metadata(), allocator);
    for (const size_t length : {1, 2, 7, 23, 24, 25, 26, 80, 200}) {
      const std::string text = random_letters(seed, length);
      ASSERT_EQ(pieces(tokenizer, text),
                merge_slowly(text,
                             [&](const auto& a, const auto& b) {
                               const auto it = ranks.find({a, b});
                               return it != ranks.end() ? it->second : INFINITY;
                             }))
          << text;
    }
  }
}

TEST(Bpe, scored_merges_equal_the_slow_algorithm_with_the_ties_of_a_merge_list) {
  for (uint64_t seed = 0; seed < 60; seed++) {
    const RandomBpe random(seed);
    TestVocabulary v;
    v.set_text("tokenizer.ggml.model", "llama");
    v.set("tokenizer.ggml.add_space_prefix", false);
    v.set("tokenizer.ggml.unknown_token_id", int64_t{-1});
    std::map<std::string, double> order;  // lower merges first
    for (const auto& token : random.tokens) {
      const double score = -std::floor(uniform_draw(seed, 5, order.size()) * 8);  // many ties
      order[token] = -score * 1e6 + static_cast<double>(v.add(token, 1, score));
    }
    HostAllocator allocator;
    const Tokenizer tokenizer(v.metadata(), allocator);
    for (const size_t length : {1, 2, 7, 23, 24, 25, 26, 80, 200}) {
      const std::string text = random_letters(seed, length);
      ASSERT_EQ(pieces(tokenizer, text),
                merge_slowly(text,
                             [&](const auto& a, const auto& b) {
                               const auto it = order.find(a + b);
                               if (it == order.end()) return INFINITY + 0.0;
                               const double score = std::floor(it->second / 1e6);
                               const double id = it->second - score * 1e6;
                               const auto shorter = [](const std::string& s) {
                                 return 100.0 - double(s.size());
                               };
                               return ((score * 100 + shorter(a)) * 100 + shorter(b)) * 1000 + id;
                             }))
          << text;
    }
  }
}

// TK-01: the steps grow with the text, not with its square.
TEST(Bpe, steps_are_linear_for_texts_of_one_repeated_piece) {
  TestVocabulary byte_level = TestVocabulary::byte_level();
  byte_level.add("aa");
  byte_level.add_merge("a a");
  for (std::string run = "aa"; run.size() < 64; run += run) {
    byte_level.add(run + run);
    byte_level.add_merge(run + " " + run);
  }
  const TestVocabulary sentencepiece =
      TestVocabulary::sentencepiece({"a", "aa", "aaa", "aaaa", "_", "__", "____", "_a"});
  for (const TestVocabulary& v : {byte_level, sentencepiece}) {
    HostAllocator allocator;
    const Tokenizer tokenizer(v.metadata(), allocator);
    for (const std::string unit :
         {"a", " ", "\n", "7", "!", "\xE4\xBD\xA0", "\xF0\x9F\x98\x80", "<|", "'", " a", "\xFF"}) {
      const auto steps = [&](size_t bytes) {
        std::string text;
        while (text.size() < bytes) text += unit;
        int64_t count = 0;
        EXPECT_EQ(tokenizer.decode(tokenizer.encode(text, {.num_steps = &count})), text);
        return static_cast<double>(count);
      };
      const double half = steps(500'000), whole = steps(1'000'000);
      EXPECT_LE(whole, 2.3 * half + 100) << unit;
      EXPECT_LE(whole, 16e6) << unit;
    }
  }
}

}  // namespace
}  // namespace pagoda
