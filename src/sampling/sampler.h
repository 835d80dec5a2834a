// Sampler: one generation's side of sampling. Holds the counts of its tokens where a penalty needs
// them, and makes the SampleRow for its next token.
//
// Owned by the Sequence it belongs to; the spans of a row point into the Sampler and its
// SamplingParams and stay valid until the next accept(). Never sees text.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "sampling/sampling_params.h"

namespace pagoda {

class Sampler {
 public:
  // `params` must outlive the Sampler. `choice`: index of the sample of a request (n).
  Sampler(const SamplingParams& params,
          uint64_t seed,
          uint32_t choice,
          std::span<const int32_t> prompt);

  // A generated token joins the history.
  void accept(int32_t token);
  // The row that draws the token at `position` of the sequence.
  SampleRow row(uint64_t position) const;
  const SamplingParams& params() const { return *params_; }

 private:
  TokenCount& count_of(int32_t token);

  const SamplingParams* params_;
  uint64_t seed_;
  uint32_t choice_;
  std::vector<TokenCount> counts_;              // distinct tokens, in order of first use
  std::unordered_map<int32_t, size_t> places_;  // token -> index in counts_
};

}  // namespace pagoda
