#include "engine/step.h"

#include <algorithm>

namespace pagoda {

StepInput::StepInput(const StepLimits& limits)
    : max_blocks(limits.max_blocks),
      token_ids(limits.max_tokens),
      token_source(limits.max_tokens),
      positions(limits.max_tokens),
      cu_q_lens(limits.max_seqs + 1),
      kv_lens(limits.max_seqs),
      sampling_rows(limits.max_seqs),
      groups(limits.num_groups),
      logit_rows(limits.max_seqs),
      sample_rows(limits.max_seqs) {
  for (StepGroup& group : groups) {
    group.slot_mapping.resize(limits.max_tokens);
    group.block_table.resize(size_t(limits.max_seqs) * limits.max_blocks);
  }
  zero_blocks.reserve(limits.max_new_blocks);
  copies.reserve(limits.max_new_blocks);
}

bool StepInput::has_late_tokens() const {
  return std::any_of(token_source.begin(), token_source.begin() + num_tokens, [](int32_t source) {
    return source >= 0;
  });
}

StepResult::StepResult(const StepLimits& limits)
    : max_logprobs(limits.max_logprobs),
      tokens(limits.max_seqs),
      top_logprobs(size_t(limits.max_seqs) * limits.max_logprobs) {}

std::span<const TokenValue> StepResult::top_of(int32_t row) const {
  const std::span<const TokenValue> all(top_logprobs.data() + size_t(row) * max_logprobs,
                                        size_t(max_logprobs));
  const auto end = std::ranges::find(all, -1, &TokenValue::token);
  return all.first(end - all.begin());
}

}  // namespace pagoda
