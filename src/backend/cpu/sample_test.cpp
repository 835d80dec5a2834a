// Draws as a person would check them: by counting. What each draw must be, the conformance test
// says.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>
#include <vector>

#include "backend/cpu/cpu_backend.h"

namespace pagoda::cpu {
namespace {

class Draws : public ::testing::TestWithParam<IsaLevel> {
 protected:
  void SetUp() override {
    backend_ = make_cpu_backend({.num_threads = 1, .isa = GetParam()});
    backend_->reserve_workspace({.vocabulary = 1 << 18});
  }
  SampledToken draw(std::vector<float> logits, const SampleRow& row) {
    const TensorView view(
        reinterpret_cast<std::byte*>(logits.data()), DType::f32, {1, int64_t(logits.size())});
    SampledToken token;
    backend_->process_logits({.logits = view, .rows = {&row, 1}});
    backend_->sample({.logits = view, .rows = {&row, 1}, .out = {&token, 1}, .top_logprobs = {}});
    return token;
  }
  // Pearson's statistic of `num_draws` against probabilities by token.
  double chi_square(const std::vector<float>& logits,
                    SampleRow row,
                    const std::map<int32_t, double>& probabilities,
                    int num_draws) {
    std::map<int32_t, int> counts;
    for (int i = 0; i < num_draws; i++) {
      row.position = i;
      counts[draw(logits, row).token]++;
    }
    double sum = 0;
    for (const auto& [token, count] : counts)
      if (!probabilities.contains(token)) return HUGE_VAL;
    for (const auto& [token, p] : probabilities)
      sum += std::pow(counts[token] - p * num_draws, 2) / (p * num_draws);
    return sum;
  }
  std::unique_ptr<Backend> backend_;
};

constexpr int kDraws = 20000;
const std::vector<float> kLogits = {0.5f, -1.f, 2.f, 1.f, -0.5f, 0.f, 1.5f, -2.f, 2.f, 0.25f};

std::map<int32_t, double> softmax(const std::vector<int32_t>& tokens, double temperature) {
  std::map<int32_t, double> p;
  double sum = 0;
  for (int32_t token : tokens) sum += p[token] = std::exp(double(kLogits[token]) / temperature);
  for (auto& entry : p) entry.second /= sum;
  return p;
}

// 99.9 % of chi-square with 9, 3 and 2 degrees of freedom: 27.9, 16.3, 13.8. Seeds are fixed.
TEST_P(Draws, follow_the_softmax) {
  std::vector<int32_t> all(kLogits.size());
  std::iota(all.begin(), all.end(), 0);
  EXPECT_LT(chi_square(kLogits, {.temperature = 1, .seed = 1}, softmax(all, 1), kDraws), 27.9);
  EXPECT_LT(chi_square(kLogits, {.temperature = 1.7f, .seed = 2}, softmax(all, 1.7), kDraws), 27.9);
}

TEST_P(Draws, of_another_distribution_are_told_apart) {
  std::vector<int32_t> all(kLogits.size());
  std::iota(all.begin(), all.end(), 0);
  EXPECT_GT(chi_square(kLogits, {.temperature = 1, .seed = 1}, softmax(all, 1.1), kDraws), 27.9);
}

TEST_P(Draws, follow_the_softmax_of_the_top_k) {
  EXPECT_LT(
      chi_square(
          kLogits, {.temperature = 1, .top_k = 4, .seed = 3}, softmax({2, 8, 6, 3}, 1), kDraws),
      16.3);
}

TEST_P(Draws, follow_the_softmax_of_the_nucleus) {
  // 0.279, 0.279, 0.169, …: three tokens reach 0.6.
  EXPECT_LT(
      chi_square(
          kLogits, {.temperature = 1, .top_p = 0.6f, .seed = 4}, softmax({2, 8, 6}, 1), kDraws),
      13.8);
}

TEST_P(Draws, leave_out_what_is_less_likely_than_min_p) {
  // exp(-0.5) = 0.61 and exp(-1) = 0.37 of the likeliest.
  EXPECT_LT(
      chi_square(
          kLogits, {.temperature = 1, .min_p = 0.5f, .seed = 5}, softmax({2, 8, 6}, 1), kDraws),
      13.8);
}

TEST_P(Draws, of_two_choices_differ) {
  int equal = 0;
  for (uint64_t position = 0; position < 1000; position++) {
    SampleRow a{.temperature = 1, .seed = 7, .choice = 0, .position = position}, b = a;
    b.choice = 1;
    equal += draw(kLogits, a).token == draw(kLogits, b).token;
  }
  EXPECT_LT(equal, 300);  // Σ p² is 0.2
}

TEST_P(Draws, take_the_lower_id_of_equal_logits) {
  for (const int64_t size : {2, 16, 17, 1000, 1 << 18}) {
    std::vector<float> logits(size, -1.f);
    logits[size - 1] = logits[size / 2] = 4.f;
    EXPECT_EQ(draw(logits, {}).token, size / 2) << size;
  }
}

TEST_P(Draws, never_give_a_banned_token_and_always_a_forced_one) {
  const TokenValue ban[] = {{2, -100.f}, {8, -100.f}}, force[] = {{7, 100.f}};
  for (uint64_t position = 0; position < 500; position++) {
    const int32_t token =
        draw(kLogits, {.temperature = 2, .bias = ban, .seed = 1, .position = position}).token;
    EXPECT_TRUE(token != 2 && token != 8);
    EXPECT_EQ(draw(kLogits, {.temperature = 2, .bias = force, .position = position}).token, 7);
  }
}

TEST_P(Draws, keep_to_the_mask) {
  const uint32_t mask = 1u << 1 | 1u << 7;
  for (uint64_t position = 0; position < 200; position++) {
    const int32_t token =
        draw(kLogits, {.temperature = 2, .mask = {&mask, 1}, .seed = 1, .position = position})
            .token;
    EXPECT_TRUE(token == 1 || token == 7) << token;
  }
}

TEST_P(Draws, say_so_where_nothing_is_allowed) {
  const uint32_t none = 0;
  const SampledToken token = draw(kLogits, {.mask = {&none, 1}});
  EXPECT_TRUE(token.has_nan);
  EXPECT_EQ(token.token, -1);
}

INSTANTIATE_TEST_SUITE_P(Isa,
                         Draws,
                         ::testing::Values(IsaLevel::v3, chosen_isa()),
                         [](const auto& info) {
                           return info.index == 0 ? std::string("v3") : std::string("chosen");
                         });

}  // namespace
}  // namespace pagoda::cpu
