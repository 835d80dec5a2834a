#include "sampling/sampling_params.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>

#include "base/error.h"

namespace pagoda {
namespace {

constexpr SamplingLimits kLimits = {.vocabulary = 1000, .max_logprobs = 20};
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// "" when accepted, else the message.
std::string refusal(const std::function<void(SamplingParams&)>& change) {
  SamplingParams params;
  change(params);
  try {
    validate(params, kLimits);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), "request.bad_sampling");
    return error.message();
  }
  return "";
}

struct Range {
  const char* field;
  float SamplingParams::*member;
  std::vector<float> good, bad;
};

class SamplingRange : public ::testing::TestWithParam<Range> {};

TEST_P(SamplingRange, accepts_what_lies_within) {
  for (float value : GetParam().good)
    EXPECT_EQ(refusal([&](SamplingParams& p) { p.*GetParam().member = value; }), "") << value;
}

TEST_P(SamplingRange, refuses_what_lies_outside_by_name) {
  std::vector<float> bad = GetParam().bad;
  bad.insert(bad.end(), {kNan, kInfinity, -kInfinity});
  for (float value : bad)
    EXPECT_TRUE(refusal([&](SamplingParams& p) {
                  p.*GetParam().member = value;
                }).starts_with(GetParam().field))
        << value;
}

INSTANTIATE_TEST_SUITE_P(
    Fields,
    SamplingRange,
    ::testing::Values(
        Range{"temperature", &SamplingParams::temperature, {0, 1e-6f, 1, 2}, {-0.1f, 2.1f}},
        Range{"top_p", &SamplingParams::top_p, {0, 0.5f, 1}, {-0.1f, 1.1f}},
        Range{"min_p", &SamplingParams::min_p, {0, 1}, {-0.1f, 2}},
        Range{"repetition_penalty", &SamplingParams::repetition_penalty, {0.5f, 1, 2}, {0, -1}},
        Range{"presence_penalty", &SamplingParams::presence_penalty, {-2, 2}, {-2.1f, 2.1f}},
        Range{"frequency_penalty", &SamplingParams::frequency_penalty, {-2, 2}, {-2.1f, 2.1f}}),
    [](const auto& info) { return std::string(info.param.field); });

TEST(SamplingParams, top_k_may_be_all) {
  for (int32_t k : {-1, 0, 1, 5000})
    EXPECT_EQ(refusal([&](SamplingParams& p) { p.top_k = k; }), "") << k;
  EXPECT_NE(refusal([](SamplingParams& p) { p.top_k = -2; }), "");
}

TEST(SamplingParams, logprobs_reach_to_the_limit) {
  EXPECT_EQ(refusal([](SamplingParams& p) { p.num_logprobs = 20; }), "");
  EXPECT_NE(refusal([](SamplingParams& p) { p.num_logprobs = 21; }), "");
  EXPECT_NE(refusal([](SamplingParams& p) { p.num_logprobs = -2; }), "");
}

TEST(SamplingParams, a_bias_names_a_token_of_the_vocabulary) {
  EXPECT_EQ(refusal([](SamplingParams& p) { p.logit_bias = {{0, 100}, {999, -100}}; }), "");
  for (int32_t token : {-1, 1000, std::numeric_limits<int32_t>::max()})
    EXPECT_NE(refusal([&](SamplingParams& p) { p.logit_bias = {{token, 1}}; }), "") << token;
}

TEST(SamplingParams, a_bias_lies_between_minus_100_and_100) {
  for (float value : {-101.f, 101.f, kNan})
    EXPECT_NE(refusal([&](SamplingParams& p) { p.logit_bias = {{5, value}}; }), "") << value;
}

TEST(SamplingParams, biases_are_counted) {
  EXPECT_EQ(refusal([](SamplingParams& p) { p.logit_bias.resize(1024); }), "");
  EXPECT_NE(refusal([](SamplingParams& p) { p.logit_bias.resize(1025); }), "");
}

TEST(SamplingParams, what_leaves_one_token_is_greedy) {
  EXPECT_TRUE((SamplingParams{.temperature = 0}.is_greedy()));
  EXPECT_TRUE((SamplingParams{.temperature = 1e-6f}.is_greedy()));
  EXPECT_FALSE((SamplingParams{.temperature = 1}.is_greedy()));
  SamplingParams nucleus, one;
  nucleus.top_p = 0;
  one.top_k = 1;
  EXPECT_TRUE(nucleus.is_greedy());
  EXPECT_TRUE(one.is_greedy());
}

}  // namespace
}  // namespace pagoda
