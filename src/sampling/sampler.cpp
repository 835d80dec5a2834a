#include "sampling/sampler.h"

#include <algorithm>

namespace pagoda {

Sampler::Sampler(const SamplingParams& params,
                 uint64_t seed,
                 uint32_t choice,
                 std::span<const int32_t> prompt)
    : params_(&params), seed_(seed), choice_(choice) {
  if (!params_->has_penalties()) return;
  for (int32_t token : prompt) count_of(token).in_prompt++;
}

void Sampler::accept(int32_t token) {
  if (params_->has_penalties()) count_of(token).in_output++;
}

TokenCount& Sampler::count_of(int32_t token) {
  const auto [place, is_new] = places_.try_emplace(token, counts_.size());
  if (is_new) counts_.push_back({token, 0, 0});
  return counts_[place->second];
}

SampleRow Sampler::row(uint64_t position) const {
  return {.temperature = params_->is_greedy() ? 0.f : params_->temperature,
          .top_k = std::max(0, params_->top_k),
          .top_p = params_->top_p,
          .min_p = params_->min_p,
          .repetition_penalty = params_->repetition_penalty,
          .presence_penalty = params_->presence_penalty,
          .frequency_penalty = params_->frequency_penalty,
          .counts = counts_,
          .bias = params_->logit_bias,
          .mask = {},
          .seed = seed_,
          .choice = choice_,
          .position = position,
          .num_logprobs = params_->num_logprobs};
}

}  // namespace pagoda
