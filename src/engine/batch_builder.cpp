#include "engine/batch_builder.h"

#include <algorithm>

#include "base/checked.h"
#include "base/error.h"
#include "kv/planted_bug.h"

namespace pagoda {

StepLimits step_limits(const SchedulerOptions& options,
                       const KvCacheOptions& kv,
                       int32_t max_logprobs) {
  const auto num_groups = static_cast<int32_t>(kv.windows.size());
  // Of a sequence and group: what its tokens fill, one begun block more, one copied.
  const int64_t new_blocks =
      num_groups * (options.token_budget / kv.block_size + int64_t{2} * options.max_num_seqs);
  return {.max_tokens = options.token_budget,
          .max_seqs = options.max_num_seqs,
          .max_blocks = static_cast<int32_t>(ceil_div(options.max_model_len, kv.block_size)),
          .num_groups = num_groups,
          .max_new_blocks = static_cast<int32_t>(new_blocks),
          .max_logprobs = max_logprobs};
}

BatchBuilder::BatchBuilder(const StepLimits& limits, int32_t block_size)
    : limits_(limits), block_size_(block_size) {}

void BatchBuilder::build(const SchedulerOutput& output,
                         const KvCache::StepBlocks& blocks,
                         StepInput& input) const {
  PG_CHECK(output.num_tokens <= limits_.max_tokens && std::ssize(output.rows) <= limits_.max_seqs &&
               output.num_sample_rows <= limits_.max_seqs &&
               std::ssize(blocks.zero) <= limits_.max_new_blocks,
           "{} tokens, {} sequences, {} samples, {} blocks",
           output.num_tokens,
           output.rows.size(),
           output.num_sample_rows,
           blocks.zero.size());
  input.num_tokens = input.num_seqs = input.num_rows = 0;
  input.cu_q_lens[0] = 0;
  for (const ScheduledTokens& row : output.rows) {
    add_tables(row, input);
    add_tokens(row, input);
    add_samples(row, input);
    input.cu_q_lens[++input.num_seqs] = input.num_tokens;
  }
  input.zero_blocks.assign(blocks.zero.begin(), blocks.zero.end());
  input.copies.assign(blocks.copies.begin(), blocks.copies.end());
}

void BatchBuilder::add_tokens(const ScheduledTokens& row, StepInput& input) const {
  const Sequence& sequence = *row.sequence;
  for (int32_t position = row.begin; position < row.end(); position++) {
    const int32_t t = input.num_tokens++;
    const bool is_known = position < std::ssize(sequence.tokens);
    input.positions[t] = position;
    input.token_ids[t] = is_known ? sequence.tokens[position] : 0;
    input.token_source[t] = is_known ? -1 : sequence.last_sample_row;
    if (!is_known && planted(PlantedBug::late_token_from_wrong_row)) input.token_source[t] = 0;
    for (size_t group = 0; group < input.groups.size(); group++) {
      const int32_t block = sequence.kv.tables[group][position / block_size_];
      input.groups[group].slot_mapping[t] = block * block_size_ + position % block_size_;
    }
  }
}

void BatchBuilder::add_tables(const ScheduledTokens& row, StepInput& input) const {
  const int32_t b = input.num_seqs;
  const bool is_short =
      planted(PlantedBug::chunk_off_by_one) && row.begin > 0 && row.num_tokens > 1;
  input.kv_lens[b] = row.end() - (is_short ? 1 : 0);
  const auto last_of_prompt =
      static_cast<int32_t>(row.sequence->request->request.prompt.size()) - 1;
  input.sampling_rows[b] = std::max(0, row.end() - std::max(row.begin, last_of_prompt));
  for (size_t group = 0; group < input.groups.size(); group++) {
    const std::vector<int32_t>& table = row.sequence->kv.tables[group];
    PG_CHECK(std::ssize(table) <= limits_.max_blocks, "{} blocks", table.size());
    const auto begin = input.groups[group].block_table.begin() + int64_t{b} * limits_.max_blocks;
    std::fill(std::ranges::copy(table, begin).out, begin + limits_.max_blocks, -1);
  }
}

void BatchBuilder::add_samples(const ScheduledTokens& row, StepInput& input) const {
  if (row.num_samples > 0) row.sequence->last_sample_row = input.num_rows;
  for (int32_t i = 0; i < row.num_samples; i++) {
    // Before the fork, the first sequence draws for all choices.
    const Sequence& drawn_for =
        row.num_samples == 1 ? *row.sequence : *row.sequence->request->sequences[i];
    int32_t position = row.end();
    if (planted(PlantedBug::position_reset_on_resume))
      position -= static_cast<int32_t>(row.sequence->epoch);
    SampleRow sample = drawn_for.sampler.row(static_cast<uint64_t>(position));
    if (planted(PlantedBug::choice_not_in_draw)) sample.choice = 0;
    input.logit_rows[input.num_rows] = input.num_tokens - 1;
    input.sample_rows[input.num_rows++] = sample;
  }
}

}  // namespace pagoda
