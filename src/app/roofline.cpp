#include "app/roofline.h"

#include <algorithm>

namespace pagoda {
namespace {

// Operations of one row with the weight, and the weight's bytes.
StepWork work_of(const Weight& weight) {
  StepWork work;
  work.bytes = double(weight.data.size());
  const double ops = 2.0 * double(weight.rows) * double(weight.cols);
  if (is_quantised(weight.dtype))
    work.int8_ops = ops;
  else if (weight.dtype == DType::bf16)
    work.bf16_ops = ops;
  else
    work.f32_ops = ops;
  return work;
}

void add_ops(const StepWork& row, double rows, StepWork& work) {
  work.int8_ops += rows * row.int8_ops;
  work.bf16_ops += rows * row.bf16_ops;
  work.f32_ops += rows * row.f32_ops;
}

}  // namespace

StepWork& StepWork::operator+=(const StepWork& other) {
  bytes += other.bytes;
  int8_ops += other.int8_ops;
  bf16_ops += other.bf16_ops;
  f32_ops += other.f32_ops;
  return *this;
}

StepCost::StepCost(const Model& model, const KvLayout& kv) {
  const ModelConfig& config = model.config();
  const ModelWeights& weights = model.weights();
  for (const LayerWeights& layer : weights.layers)
    for (const Weight* weight :
         {&layer.q, &layer.k, &layer.v, &layer.o, &layer.gate, &layer.up, &layer.down})
      layers_ += work_of(*weight);
  head_ = work_of(config.has_tied_embeddings ? weights.embedding : weights.lm_head);
  embedding_row_bytes_ = double(weights.embedding.data.size()) / double(config.vocab_size);
  for (const KvGroup& group : kv.groups) groups_.push_back({group.num_layers, group.spec.window});
  pair_ops_ = 4.0 * config.num_heads * config.head_dim;
  token_bytes_ = double(kv.layer_block_bytes()) / kv.block_size;
  is_kv_dotted_as_bf16_ = kv.dtype != KvDType::f32 && kv.dtype != KvDType::f16;
}

void StepCost::add_weights(int64_t rows, int64_t logit_rows, StepWork& work) const {
  work.bytes += layers_.bytes + head_.bytes + double(rows) * embedding_row_bytes_;
  add_ops(layers_, double(rows), work);
  add_ops(head_, double(logit_rows), work);
}

void StepCost::add_attention(int64_t begin, int64_t end, StepWork& work) const {
  for (const Group& group : groups_) {
    double pairs = 0;
    for (int64_t t = begin; t < end; t++)
      pairs += double(group.window == 0 ? t + 1 : std::min<int64_t>(t + 1, group.window));
    const int64_t first = group.window == 0 ? 0 : std::max<int64_t>(0, begin + 1 - group.window);
    const double ops = pairs * pair_ops_ * group.num_layers;
    (is_kv_dotted_as_bf16_ ? work.bf16_ops : work.f32_ops) += ops;
    work.bytes += double(end - first) * token_bytes_ * group.num_layers;
  }
}

StepWork StepCost::decode(int32_t batch, int32_t depth) const {
  StepWork work, sequence;
  add_weights(batch, batch, work);
  add_attention(depth, depth + 1, sequence);
  for (int32_t i = 0; i < batch; i++) work += sequence;
  return work;
}

StepWork StepCost::prefill(int32_t tokens, int32_t depth, int32_t chunk) const {
  StepWork work;
  for (int32_t done = 0; done < tokens; done += chunk) {
    const int32_t rows = std::min(chunk, tokens - done);
    add_weights(rows, done + rows == tokens ? 1 : 0, work);
    add_attention(depth + done, depth + done + rows, work);
  }
  return work;
}

StepLimit limit_of(const StepWork& work, const cpu::MachineLimits& machine) {
  const double memory = work.bytes / machine.read_bytes_per_s;
  const double compute = work.int8_ops / machine.int8_ops_per_s +
                         work.bf16_ops / machine.bf16_ops_per_s +
                         work.f32_ops / machine.f32_ops_per_s;
  return {std::max(memory, compute), memory >= compute};
}

}  // namespace pagoda
