#include "engine/model_executor.h"

#include <algorithm>

#include "base/error.h"
#include "engine/shared_keys.h"
#include "model/cost.h"

namespace pagoda {

namespace {
constexpr size_t kMaxOut = 2;  // steps whose results can be awaited
}  // namespace

ModelExecutor::ModelExecutor(Backend& backend,
                             Model& model,
                             KvStorage& storage,
                             const StepLimits& limits,
                             AttentionAlgorithm algorithm)
    : backend_(backend),
      model_(model),
      storage_(storage),
      limits_(limits),
      algorithm_(algorithm),
      logits_(backend.allocator().allocate(logits_bytes(model.config(),
                                                        {.max_tokens = limits.max_tokens,
                                                         .max_seqs = limits.max_seqs,
                                                         .max_logit_rows = limits.max_seqs}),
                                           MemoryTag::logits)),
      arrays_(backend,
              StepArrays::num_ints({.max_tokens = limits.max_tokens,
                                    .max_seqs = limits.max_seqs,
                                    .max_blocks = limits.max_blocks,
                                    .num_groups = limits.num_groups})),
      token_ids_(limits.max_tokens),
      groups_(limits.num_groups),
      shared_(limits.num_groups) {
  for (size_t i = 0; i < kMaxOut; i++) done_.push_back({0, StepResult(limits)});
}

Ticket ModelExecutor::submit(const StepInput& input) {
  const Ticket ticket = next_ticket_++;
  fill_late_tokens(input);
  last_good_.reset();
  Done& done = done_[ticket % kMaxOut];
  done.ticket = ticket;
  run(input, done.result);
  last_good_ = ticket;
  return ticket;
}

void ModelExecutor::wait(Ticket ticket, StepResult& result) {
  Done& done = done_[ticket % kMaxOut];
  PG_CHECK(done.ticket == ticket, "step {} was asked for, {} is kept", ticket, done.ticket);
  std::swap(done.result, result);
}

void ModelExecutor::fill_late_tokens(const StepInput& input) {
  for (int32_t t = 0; t < input.num_tokens; t++) {
    const int32_t source = input.token_source[t];
    token_ids_[t] = input.token_ids[t];
    if (source < 0) continue;
    token_ids_[t] =
        last_good_ ? std::max(0, done_[*last_good_ % kMaxOut].result.tokens[source].token) : 0;
  }
}

// Sends the step's arrays to the backend.
ForwardBatch ModelExecutor::batch_of(const StepInput& input) {
  const auto first = [](const std::vector<int32_t>& all, int64_t n) {
    return std::span<const int32_t>(all.data(), static_cast<size_t>(n));
  };
  arrays_.begin();
  const auto cu_q_lens = first(input.cu_q_lens, input.num_seqs + 1);
  const auto kv_lens = first(input.kv_lens, input.num_seqs);
  const auto cu_q_lens_there = arrays_.put(cu_q_lens), kv_lens_there = arrays_.put(kv_lens);
  for (size_t g = 0; g < groups_.size(); g++) {
    const StepGroup& group = input.groups[g];
    const auto table = first(group.block_table, int64_t{input.num_seqs} * input.max_blocks);
    if (!backend_.uses_host_memory())
      find_shared_keys({cu_q_lens, kv_lens, table, input.max_blocks, storage_.layout().block_size},
                       shared_[g]);
    groups_[g] = {.slot_mapping = arrays_.put(first(group.slot_mapping, input.num_tokens)),
                  .attention = {.cu_q_lens = cu_q_lens_there,
                                .kv_lens = kv_lens_there,
                                .block_table = arrays_.put(table),
                                .max_blocks = input.max_blocks,
                                .host_cu_q_lens = cu_q_lens,
                                .host_kv_lens = kv_lens,
                                .host_sampling_rows = first(input.sampling_rows, input.num_seqs),
                                .host_shared = shared_[g]}};
  }
  const ForwardBatch batch = {.token_ids = arrays_.put(first(token_ids_, input.num_tokens)),
                              .positions = arrays_.put(first(input.positions, input.num_tokens)),
                              .groups = groups_,
                              .group_of_layer = storage_.layout().group_of_layer,
                              .algorithm = algorithm_};
  logit_rows_ = arrays_.put(first(input.logit_rows, input.num_rows));
  arrays_.send();
  return batch;
}

void ModelExecutor::run(const StepInput& input, StepResult& result) {
  storage_.run(input.zero_blocks, input.copies);
  const ForwardBatch batch = batch_of(input);
  model_.forward(batch, storage_.layers());
  result.num_rows = input.num_rows;
  if (input.num_rows == 0) return;
  const auto num_rows = static_cast<size_t>(input.num_rows);
  const TensorView logits(logits_.data(), DType::f32, {input.num_rows, model_.config().vocab_size});
  model_.logits(logit_rows_, logits);
  const std::span<const SampleRow> rows(input.sample_rows.data(), num_rows);
  backend_.process_logits({.logits = logits, .rows = rows});
  backend_.sample({.logits = logits,
                   .rows = rows,
                   .out = {result.tokens.data(), num_rows},
                   .top_logprobs = result.top_logprobs,
                   .max_logprobs = limits_.max_logprobs});
  backend_.synchronize();
}

}  // namespace pagoda
