#include "model/cost.h"

#include <algorithm>

#include "base/checked.h"
#include "model/model.h"

namespace pagoda {

ActivationLayout activation_layout(const ModelConfig& config,
                                   const ModelLimits& limits,
                                   DType activation_dtype) {
  ActivationLayout layout{};
  int64_t at = 0;
  auto take = [&](int64_t rows, int64_t cols, DType dtype) {
    const int64_t begin = at;
    at = round_up(at + rows * bytes_of(dtype, cols), 64);
    return begin;
  };
  const int64_t T = limits.max_tokens;
  layout.residual = take(T, config.hidden_size, activation_dtype);
  layout.normed = take(T, config.hidden_size, activation_dtype);
  layout.qkv = take(T, config.qkv_size(), activation_dtype);
  layout.attended = take(T, int64_t{config.num_heads} * config.head_dim, activation_dtype);
  layout.projected = take(T, config.hidden_size, activation_dtype);
  layout.gate_up =
      take(T, int64_t{config.is_gated ? 2 : 1} * config.intermediate_size, activation_dtype);
  layout.gated = take(T, config.intermediate_size, activation_dtype);
  layout.gathered = take(limits.max_logit_rows, config.hidden_size, activation_dtype);
  layout.angles = at;
  layout.angles_bytes = round_up(T * config.rotary_dim * 4, 64);
  layout.total = at + layout.angles_bytes * int64_t(config.ropes.size());
  return layout;
}

int64_t logits_bytes(const ModelConfig& config, const ModelLimits& limits) {
  return int64_t{limits.max_logit_rows} * config.vocab_size * 4;
}

WorkspaceShape workspace_shape(const ModelConfig& config, const ModelLimits& limits) {
  WorkspaceShape shape;
  shape.max_tokens = limits.max_tokens;
  shape.max_seqs = limits.max_seqs;
  shape.max_logit_rows = limits.max_logit_rows;
  shape.max_context = limits.max_context;
  const int64_t q_size = int64_t{config.num_heads} * config.head_dim;
  shape.max_cols = std::max<int64_t>({config.hidden_size, q_size, config.intermediate_size});
  shape.max_rows = std::max<int64_t>(
      {config.qkv_size(), 2 * int64_t{config.intermediate_size}, config.vocab_size});
  shape.norm_cols = config.hidden_size;
  shape.num_heads = config.num_heads;
  shape.kv_heads = config.num_kv_heads;
  shape.head_dim = config.head_dim;
  shape.vocabulary = config.vocab_size;
  shape.kv_dtype = limits.kv_dtype;
  return shape;
}

}  // namespace pagoda
