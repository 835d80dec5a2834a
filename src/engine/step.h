// StepInput: one step's work as flat host arrays; StepResult: what came of it.
//
// Both are sized once, from StepLimits, and never grow. BatchBuilder fills a StepInput, an Executor
// reads it; whoever owns the engine keeps one per ticket that can be out. Rows of a sequence lie
// side by side. A token that the step before samples (overlap depth 1) is not known yet when the
// step is built: its token_source names the sample row of that step, and the executor fills it in.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/kv_format.h"
#include "backend/sample_args.h"

namespace pagoda {

struct StepLimits {
  int32_t max_tokens = 0;      // T: the token budget
  int32_t max_seqs = 0;        // B; also R, sample rows
  int32_t max_blocks = 0;      // of one sequence and group: ceil(max_model_len / S)
  int32_t num_groups = 1;      // layer groups
  int32_t max_new_blocks = 0;  // zeroed or copied in one step
  int32_t max_logprobs = 0;    // of one row
};

struct StepGroup {
  std::vector<int32_t> slot_mapping;  // [T]
  std::vector<int32_t> block_table;   // [B, max_blocks]; -1 behind a window and past the end
};

struct StepInput {
  explicit StepInput(const StepLimits& limits);

  int32_t num_tokens = 0;  // T of this step
  int32_t num_seqs = 0;    // B
  int32_t num_rows = 0;    // R
  int32_t max_blocks = 0;  // row length of every block table

  std::vector<int32_t> token_ids;     // [T]
  std::vector<int32_t> token_source;  // [T] -1, or the sample row of the step before
  std::vector<int32_t> positions;     // [T]
  std::vector<int32_t> cu_q_lens;     // [B + 1]
  std::vector<int32_t> kv_lens;       // [B] this step's tokens counted
  // [B] how many of its last rows are at or after the prompt's last token: AttentionBatch.
  std::vector<int32_t> sampling_rows;
  std::vector<StepGroup> groups;
  // Token row whose logits are wanted; several rows may name one (n samples of a prompt).
  std::vector<int32_t> logit_rows;     // [R]
  std::vector<SampleRow> sample_rows;  // [R]; spans live until the step has returned
  // Done before the forward pass, in this order.
  std::vector<int32_t> zero_blocks;  // taken from the pool
  std::vector<BlockCopy> copies;     // copy-on-write

  bool has_late_tokens() const;  // whether any token_source is set
};

struct StepResult {
  explicit StepResult(const StepLimits& limits);

  int32_t num_rows = 0;
  int32_t max_logprobs = 0;
  std::vector<SampledToken> tokens;      // [R]
  std::vector<TokenValue> top_logprobs;  // [R, max_logprobs]; unused entries have token -1
  std::span<const TokenValue> top_of(int32_t row) const;
};

}  // namespace pagoda
