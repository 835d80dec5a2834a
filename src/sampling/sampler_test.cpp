#include "sampling/sampler.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace pagoda {
namespace {

SamplingParams penalised() {
  SamplingParams params;
  params.frequency_penalty = 0.5f;
  return params;
}

std::map<int32_t, std::pair<int32_t, int32_t>> counts_of(const Sampler& sampler) {
  std::map<int32_t, std::pair<int32_t, int32_t>> counts;
  for (const TokenCount& count : sampler.row(0).counts)
    EXPECT_TRUE(counts.emplace(count.token, std::pair{count.in_prompt, count.in_output}).second);
  return counts;
}

TEST(Sampler, counts_tokens_of_prompt_and_output_apart) {
  const SamplingParams params = penalised();
  const std::vector<int32_t> prompt = {7, 7, 3};
  Sampler sampler(params, 1, 0, prompt);
  sampler.accept(7);
  sampler.accept(9);
  sampler.accept(9);
  const std::map<int32_t, std::pair<int32_t, int32_t>> expected = {
      {3, {1, 0}}, {7, {2, 1}}, {9, {0, 2}}};
  EXPECT_EQ(counts_of(sampler), expected);
}

TEST(Sampler, counts_equal_a_recount_after_any_sequence) {
  std::mt19937 random(5);
  const SamplingParams params = penalised();
  std::vector<int32_t> prompt(200);
  for (int32_t& token : prompt) token = int32_t(random() % 50);
  Sampler sampler(params, 1, 0, prompt);
  std::map<int32_t, std::pair<int32_t, int32_t>> expected;
  for (int32_t token : prompt) expected[token].first++;
  for (int i = 0; i < 500; i++) {
    const int32_t token = int32_t(random() % 80);
    sampler.accept(token);
    expected[token].second++;
  }
  EXPECT_EQ(counts_of(sampler), expected);
}

TEST(Sampler, counts_nothing_where_no_penalty_asks) {
  const SamplingParams params;
  const std::vector<int32_t> prompt = {1, 2, 3};
  Sampler sampler(params, 1, 0, prompt);
  sampler.accept(4);
  EXPECT_TRUE(sampler.row(0).counts.empty());
}

TEST(Sampler, keys_its_draws_by_seed_choice_and_position) {
  const SamplingParams params;
  const SampleRow row = Sampler(params, 42, 3, {}).row(17);
  EXPECT_EQ(row.seed, 42u);
  EXPECT_EQ(row.choice, 3u);
  EXPECT_EQ(row.position, 17u);
}

TEST(Sampler, asks_for_the_largest_logit_where_only_one_token_is_left) {
  SamplingParams params;
  params.top_p = 0;
  EXPECT_EQ(Sampler(params, 1, 0, {}).row(0).temperature, 0.f);
}

TEST(Sampler, passes_all_tokens_on_as_zero) {
  SamplingParams params;
  params.top_k = -1;
  EXPECT_EQ(Sampler(params, 1, 0, {}).row(0).top_k, 0);
}

}  // namespace
}  // namespace pagoda
