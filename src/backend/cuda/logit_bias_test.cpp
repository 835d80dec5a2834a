#include "backend/cuda/logit_bias.h"

#include <gtest/gtest.h>

#include <limits>

namespace pagoda::cuda {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(FoldedBiases, give_each_token_one_number) {
  const std::vector<TokenValue> biases = {{9, 2.5f},
                                          {4, 1.f},
                                          {9, -0.5f},
                                          {2, -99.f},
                                          {2, -99.f},
                                          {4, kBanBias},
                                          {7, -150.f},
                                          {4, 3.f}};
  const std::vector<TokenValue> folded = folded_biases(biases);
  const std::vector<TokenValue> expected = {
      {2, -198.f}, {4, -kInfinity}, {7, -kInfinity}, {9, 2.f}};
  ASSERT_EQ(folded.size(), expected.size());
  for (size_t i = 0; i < folded.size(); i++) {
    EXPECT_EQ(folded[i].token, expected[i].token);
    EXPECT_EQ(folded[i].value, expected[i].value) << folded[i].token;
  }
  EXPECT_TRUE(folded_biases({}).empty());
}

TEST(FoldedBiases, sum_in_the_order_of_the_list) {
  const float a = 1.f, b = 0x1p-24f;
  const std::vector<TokenValue> biases = {{3, a}, {3, b}, {3, b}};
  EXPECT_EQ(folded_biases(biases)[0].value, (a + b) + b);
}

}  // namespace
}  // namespace pagoda::cuda
