#include "app/sequence_runner.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/checked.h"
#include "base/error.h"

namespace pagoda {

SequenceRunner::SequenceRunner(Deployment& deployment, int32_t max_length)
    : deployment_(deployment),
      layout_(deployment.plan().kv_layout),
      max_length_(max_length),
      max_blocks_(int32_t(ceil_div(max_length, layout_.block_size))),
      arrays_(deployment.executor().arrays()) {
  PG_CHECK(max_length <= deployment.plan().max_model_len, "{} tokens", max_length);
  // No window is given up while the sequence runs: every group has blocks for all of it.
  const auto num_groups = int32_t(layout_.groups.size());
  if (int64_t{max_blocks_} * num_groups > deployment.plan().num_blocks)
    throw Error(
        "kv.capacity_exceeded",
        "scoring {} tokens needs {} KV blocks and there are {}; raise --kv-cache-memory-bytes",
        max_length,
        int64_t{max_blocks_} * num_groups,
        deployment.plan().num_blocks);
  for (int32_t group = 0; group < num_groups; group++) {
    tables_.emplace_back(max_blocks_);
    std::iota(tables_.back().begin(), tables_.back().end(), group * max_blocks_);
  }
  if (!deployment.backend().uses_host_memory())
    logits_.resize(int64_t{max_rows()} * deployment.config().vocab_size);
  reset();
}

void SequenceRunner::reset() {
  std::vector<int32_t> all(max_blocks_ * tables_.size());
  std::iota(all.begin(), all.end(), 0);
  deployment_.kv_storage().run(all, {});
  length_ = 0;
}

void SequenceRunner::append(std::span<const int32_t> tokens) {
  const auto T = int32_t(tokens.size());
  PG_CHECK(T >= 1 && T <= max_step() && length_ + T <= max_length_, "{} after {}", T, length_);
  const int32_t S = layout_.block_size;
  std::vector<int32_t> positions(T);
  std::iota(positions.begin(), positions.end(), length_);
  length_ += T;
  const std::vector<int32_t> cu_q_lens = {0, T}, kv_lens = {length_};
  std::vector<std::vector<int32_t>> slots;
  for (const std::vector<int32_t>& table : tables_) {
    std::vector<int32_t>& slot = slots.emplace_back(T);
    for (int32_t t = 0; t < T; t++) slot[t] = table[positions[t] / S] * S + positions[t] % S;
  }
  arrays_.begin();
  const auto cu_q_lens_there = arrays_.put(cu_q_lens), kv_lens_there = arrays_.put(kv_lens);
  std::vector<GroupBatch> groups;
  for (size_t i = 0; i < tables_.size(); i++)
    groups.push_back({arrays_.put(slots[i]),
                      {.cu_q_lens = cu_q_lens_there,
                       .kv_lens = kv_lens_there,
                       .block_table = arrays_.put(tables_[i]),
                       .max_blocks = max_blocks_,
                       .host_cu_q_lens = cu_q_lens,
                       .host_kv_lens = kv_lens}});
  const auto tokens_there = arrays_.put(tokens), positions_there = arrays_.put(positions);
  arrays_.send();
  deployment_.model().forward({.token_ids = tokens_there,
                               .positions = positions_there,
                               .groups = groups,
                               .group_of_layer = layout_.group_of_layer},
                              deployment_.kv_storage().layers());
}

std::span<const float> SequenceRunner::logits(std::span<const int32_t> rows) {
  const auto R = int64_t(rows.size()), V = int64_t{deployment_.config().vocab_size};
  Backend& backend = deployment_.backend();
  const Buffer& buffer = deployment_.executor().logits_buffer();
  PG_CHECK(R <= max_rows(), "{} rows of {}", R, max_rows());
  const TensorView out(buffer.data(), DType::f32, {R, V});
  arrays_.begin();
  const auto rows_there = arrays_.put(rows);
  arrays_.send();
  deployment_.model().logits(rows_there, out);
  backend.synchronize();
  if (backend.uses_host_memory()) return {buffer.as<const float>(), size_t(R * V)};
  backend.copy_to_host(reinterpret_cast<std::byte*>(logits_.data()), out.data(), out.num_bytes());
  return std::span(logits_).first(R * V);
}

double negative_log_likelihood(std::span<const float> logits, int32_t token) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float x : logits) sum += std::exp(double(x) - largest);
  return std::log(sum) + largest - logits[token];
}

}  // namespace pagoda
