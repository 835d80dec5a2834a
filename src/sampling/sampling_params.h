// SamplingParams: how a request wants its tokens drawn. Plain values, checked once at admission
// (validate) and immutable afterwards; Sampler turns them into SampleRows.
//
// `seed` is empty when the caller gave none: the engine draws one at admission and keeps it through
// preemption. Draws are keyed by (seed, choice, position), see base/random.h.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "backend/sample_args.h"

namespace pagoda {

struct SamplingParams {
  float temperature = 1.f;  // 0 to 2; 0: greedy, and so is what is below kGreedyTemperature
  int32_t top_k = 0;        // 0 or -1: all
  float top_p = 1.f;        // 0: greedy; 1: no filter
  float min_p = 0.f;
  float repetition_penalty = 1.f;
  float presence_penalty = 0.f;
  float frequency_penalty = 0.f;
  std::vector<TokenValue> logit_bias = {};  // added to the logits; -100 bans
  int32_t num_logprobs = -1;                // -1: none; n: the chosen token's and the n largest
  std::optional<uint64_t> seed = std::nullopt;

  // Whether a row needs the counts of its earlier tokens (and so their values on the host).
  bool has_penalties() const {
    return repetition_penalty != 1.f || presence_penalty != 0.f || frequency_penalty != 0.f;
  }
  // Whether the largest logit is always taken.
  bool is_greedy() const;
};

constexpr float kGreedyTemperature = 1e-5f;  // below it the second token's chance is nothing

struct SamplingLimits {
  int64_t vocabulary = 0;
  int32_t max_logprobs = 20;
};

// Ranges of the OpenAI schema, and vLLM's for what that lacks. Throws
// Error{"request.bad_sampling"} that names the field, what was found and what was expected. NaN is
// in no range.
void validate(const SamplingParams& params, const SamplingLimits& limits);

}  // namespace pagoda
