#include "model/model.h"

#include <utility>

#include "base/error.h"
#include "model/cost.h"

namespace pagoda {

Model::Model(Backend& backend, ModelConfig config, ModelWeights weights, const ModelLimits& limits)
    : backend_(backend), config_(std::move(config)), weights_(std::move(weights)), limits_(limits) {
  const ActivationLayout layout = activation_layout(config_, limits_, backend_.activation_dtype());
  activations_ = backend_.allocator().allocate(layout.total, MemoryTag::workspace);
  for (const RopeConfig& rope : config_.ropes)
    frequencies_.push_back(rope_frequencies(rope, config_.rotary_dim));
  backend_.reserve_workspace(workspace_shape(config_, limits_));
}

// The activations of a step of T tokens: views of the first T rows of each.
Model::Activations Model::activations_of(int64_t T) const {
  const DType dtype = backend_.activation_dtype();
  const ActivationLayout layout = activation_layout(config_, limits_, dtype);
  auto view = [&](int64_t offset, int64_t rows, int64_t cols) {
    return TensorView(activations_.data() + offset, dtype, {rows, cols});
  };
  Activations a;
  a.residual = view(layout.residual, T, config_.hidden_size);
  a.normed = view(layout.normed, T, config_.hidden_size);
  a.qkv = view(layout.qkv, T, config_.qkv_size());
  a.attended = view(layout.attended, T, int64_t{config_.num_heads} * config_.head_dim);
  a.projected = view(layout.projected, T, config_.hidden_size);
  a.gate_up =
      view(layout.gate_up, T, int64_t{config_.is_gated ? 2 : 1} * config_.intermediate_size);
  a.gated = view(layout.gated, T, config_.intermediate_size);
  a.gathered = view(layout.gathered, limits_.max_logit_rows, config_.hidden_size);
  for (size_t i = 0; i < config_.ropes.size(); i++)
    a.angles.emplace_back(activations_.data() + layout.angles + int64_t(i) * layout.angles_bytes,
                          DType::f32,
                          std::initializer_list<int64_t>{T, config_.rotary_dim / 2, 2});
  return a;
}

TensorView Model::forward(const ForwardBatch& batch, std::span<const KvView> layers) {
  const auto T = int64_t(batch.token_ids.size());
  PG_CHECK(T >= 1 && T <= limits_.max_tokens, "tokens {} of {}", T, limits_.max_tokens);
  PG_CHECK(int32_t(layers.size()) == config_.num_layers, "layers {}", layers.size());
  now_ = activations_of(T);

  backend_.embed({.table = weights_.embedding,
                  .ids = batch.token_ids,
                  .scale = config_.embedding_scale,
                  .out = now_.residual});
  for (size_t i = 0; i < config_.ropes.size(); i++)
    backend_.rope_angles({.positions = batch.positions,
                          .inv_freq = frequencies_[i].inv_freq,
                          .magnitude = frequencies_[i].magnitude,
                          .out = now_.angles[i]});

  // Each block's output joins the residual in the next norm, which reads it anyway.
  ConstTensorView add, post_norm;
  for (int32_t i = 0; i < config_.num_layers; i++) {
    const LayerWeights& w = weights_.layers[i];
    norm(w.attention_norm, add, post_norm);
    attention_block(i, batch, layers[i]);
    norm(w.ffn_norm, now_.projected, w.attention_post_norm.view());
    feed_forward_block(i);
    add = now_.projected;
    post_norm = w.ffn_post_norm.view();
  }
  norm(weights_.final_norm, add, post_norm);
  return now_.normed;
}

// residual += post_norm(add); normed = norm(residual) * weight.
void Model::norm(const VectorWeight& weight, ConstTensorView add, ConstTensorView post_norm) {
  backend_.norm({.kind = config_.norm,
                 .epsilon = config_.norm_epsilon,
                 .x = now_.residual,
                 .add = add,
                 .post_norm = post_norm,
                 .weight = weight.view(),
                 .out = now_.normed});
}

void Model::attention_block(int32_t layer, const ForwardBatch& batch, const KvView& kv) {
  const LayerWeights& w = weights_.layers[layer];
  const LayerConfig& traits = config_.layers[layer];
  const GroupBatch& group = batch.groups[batch.group_of_layer[layer]];
  const Weight* qkv[] = {&w.q, &w.k, &w.v};
  backend_.linear({.x = now_.normed, .weights = qkv, .bias = w.qkv_bias.view(), .out = now_.qkv});

  const int64_t q_size = int64_t{config_.num_heads} * config_.head_dim;
  const int64_t kv_size = int64_t{config_.num_kv_heads} * config_.head_dim;
  const TensorView q = now_.qkv.slice_cols(0, q_size);
  const bool has_rope = config_.rope_style != RopeStyle::none;
  backend_.rope_store_kv({.q = q,
                          .k = now_.qkv.slice_cols(q_size, kv_size),
                          .v = now_.qkv.slice_cols(q_size + kv_size, kv_size),
                          .num_heads = config_.num_heads,
                          .q_norm = w.q_norm.view(),
                          .k_norm = w.k_norm.view(),
                          .norm_epsilon = config_.norm_epsilon,
                          .style = config_.rope_style,
                          .angles = has_rope ? now_.angles[traits.rope_index] : TensorView(),
                          .slots = group.slot_mapping,
                          .kv = kv});
  backend_.attention({.q = q,
                      .kv = kv,
                      .batch = group.attention,
                      .num_heads = config_.num_heads,
                      .scale = config_.attention_scale,
                      .window = traits.window,
                      .softcap = config_.attention_softcap,
                      .algorithm = batch.algorithm,
                      .out = now_.attended});

  const Weight* o[] = {&w.o};
  backend_.linear(
      {.x = now_.attended, .weights = o, .bias = w.o_bias.view(), .out = now_.projected});
}

void Model::feed_forward_block(int32_t layer) {
  const LayerWeights& w = weights_.layers[layer];
  const Weight* gate_up[] = {&w.gate, &w.up};
  const std::span<const Weight* const> widening(gate_up);
  backend_.linear({.x = now_.normed,
                   .weights = config_.is_gated ? widening : widening.subspan(1),
                   .out = now_.gate_up});
  backend_.activation({.function = config_.activation, .x = now_.gate_up, .out = now_.gated});
  const Weight* down[] = {&w.down};
  backend_.linear({.x = now_.gated, .weights = down, .out = now_.projected});
}

void Model::logits(std::span<const int32_t> rows, TensorView out) {
  const auto R = int64_t(rows.size());
  PG_CHECK(R >= 1 && R <= limits_.max_logit_rows, "rows {} of {}", R, limits_.max_logit_rows);
  const TensorView gathered = now_.gathered.slice_rows(0, R);
  backend_.gather_rows({.x = now_.normed, .rows = rows, .out = gathered});
  const Weight* head[] = {config_.has_tied_embeddings ? &weights_.embedding : &weights_.lm_head};
  backend_.linear({.x = gathered,
                   .weights = head,
                   .out = out,
                   .softcap = config_.final_softcap,
                   .scale = config_.logit_scale});
}

}  // namespace pagoda
