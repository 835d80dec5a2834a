#include "sampling/sampling_params.h"

#include <string_view>

#include "base/error.h"

namespace pagoda {
namespace {

constexpr int32_t kMaxBiases = 1024;

void check_between(std::string_view field, float value, float low, float high) {
  if (value >= low && value <= high) return;
  throw Error("request.bad_sampling", "{} is {}: expected {} to {}", field, value, low, high);
}

}  // namespace

bool SamplingParams::is_greedy() const {
  return temperature < kGreedyTemperature || top_p <= 0.f || top_k == 1;
}

void validate(const SamplingParams& params, const SamplingLimits& limits) {
  check_between("temperature", params.temperature, 0, 2);
  check_between("top_p", params.top_p, 0, 1);
  check_between("min_p", params.min_p, 0, 1);
  check_between("repetition_penalty", params.repetition_penalty, 0.01f, 100);
  check_between("presence_penalty", params.presence_penalty, -2, 2);
  check_between("frequency_penalty", params.frequency_penalty, -2, 2);
  if (params.top_k < -1)
    throw Error("request.bad_sampling",
                "top_k is {}: expected 1 or more, or 0 or -1 for all",
                params.top_k);
  if (params.num_logprobs < -1 || params.num_logprobs > limits.max_logprobs)
    throw Error("request.bad_sampling",
                "logprobs is {}: expected 0 to {}",
                params.num_logprobs,
                limits.max_logprobs);
  if (params.logit_bias.size() > size_t{kMaxBiases})
    throw Error("request.bad_sampling",
                "logit_bias has {} entries: expected at most {}",
                params.logit_bias.size(),
                kMaxBiases);
  for (const TokenValue& bias : params.logit_bias) {
    if (bias.token < 0 || bias.token >= limits.vocabulary)
      throw Error("request.bad_sampling",
                  "logit_bias names token {}: expected 0 to {}",
                  bias.token,
                  limits.vocabulary - 1);
    check_between("logit_bias", bias.value, -100, 100);
  }
}

}  // namespace pagoda
