// SamplingParams: how a request wants its tokens drawn. Plain values, checked once at admission
// (engine/validate) and immutable afterwards; Sampler turns them into SampleRows.
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
  float temperature = 1.f;  // 0: greedy
  int32_t top_k = 0;        // 0: all
  float top_p = 1.f;
  float min_p = 0.f;
  float repetition_penalty = 1.f;
  float presence_penalty = 0.f;
  float frequency_penalty = 0.f;
  std::vector<TokenValue> logit_bias;  // added to the logits; -100 bans
  int32_t num_logprobs = -1;           // -1: none; n: the chosen token's and the n largest
  std::optional<uint64_t> seed;

  // Whether a row needs the counts of its earlier tokens (and so their values on the host).
  bool has_penalties() const {
    return repetition_penalty != 1.f || presence_penalty != 0.f || frequency_penalty != 0.f;
  }
};

}  // namespace pagoda
