// Model: a decoder-only transformer, described by ModelConfig, with its weights and activations in
// a backend's memory. Owns both; allocates nothing after it is made. forward() is a function of its
// arguments: the same batch over the same KV bytes gives the same hidden rows, bit for bit, however
// the rows are batched or chunked. The engine's executor is its one caller.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "model/config.h"
#include "model/forward_batch.h"
#include "model/weights.h"

namespace pagoda {

// The largest step that the model will be asked for.
struct ModelLimits {
  int32_t max_tokens = 512;    // T
  int32_t max_seqs = 1;        // B
  int32_t max_logit_rows = 1;  // R
  int32_t max_context = 0;
  KvDType kv_dtype = KvDType::f16;  // of the cache
};

class Model {
 public:
  // Takes the activations and the backend's workspace (reserve_workspace).
  Model(Backend& backend, ModelConfig config, ModelWeights weights, const ModelLimits& limits);

  const ModelConfig& config() const { return config_; }
  const ModelWeights& weights() const { return weights_; }

  // Runs the layers over the batch's T tokens; layers[l] is where layer l keeps K and V. Returns
  // the normalised hidden rows [T, C], valid until the next call.
  TensorView forward(const ForwardBatch& batch, std::span<const KvView> layers);

  // logits[i] = lm_head · hidden[rows[i]] (softcapped and scaled as the model asks): [R, V] f32, of
  // the last forward().
  void logits(std::span<const int32_t> rows, TensorView out);

 private:
  struct Activations {
    TensorView residual, normed, qkv, attended, projected, gate_up, gated, gathered;
    std::vector<TensorView> angles;  // by rope index
  };

  Activations activations_of(int64_t num_tokens) const;
  void norm(const VectorWeight& weight, ConstTensorView add, ConstTensorView post_norm);
  void attention_block(int32_t layer, const ForwardBatch& batch, const KvView& kv);
  void feed_forward_block(int32_t layer);

  Backend& backend_;
  const ModelConfig config_;
  const ModelWeights weights_;
  const ModelLimits limits_;
  std::vector<RopeFrequencies> frequencies_;  // by rope index
  Buffer activations_;
  Activations now_;  // views for the step that runs
};

}  // namespace pagoda
