// The weights of a model: which there are (WeightSpec, a list that a checkpoint or a shape gives),
// and the loaded ones (ModelWeights). The plan sums over the same list that loading walks, so that
// both agree to the byte.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "formats/checkpoint.h"
#include "model/config.h"

namespace pagoda {

// A small vector of a norm or a bias, [n] f32 in backend memory.
struct VectorWeight {
  Buffer data;
  int64_t size = 0;
  ConstTensorView view() const {
    return size == 0 ? ConstTensorView() : ConstTensorView(data.data(), DType::f32, {size});
  }
};

struct LayerWeights {
  VectorWeight attention_norm, attention_norm_bias, attention_post_norm;
  Weight q, k, v, o;
  VectorWeight qkv_bias, o_bias;
  VectorWeight q_norm, k_norm;
  VectorWeight ffn_norm, ffn_norm_bias, ffn_post_norm;
  Weight gate, up, down;
};

struct ModelWeights {
  Weight embedding;
  Weight lm_head;  // rows 0: tied to the embedding
  VectorWeight final_norm, final_norm_bias;
  std::vector<LayerWeights> layers;
};

// How a checkpoint names its tensors, "{}" standing for the layer. An empty name: the family has no
// such tensor.
struct TensorNames {
  std::string embedding, lm_head, final_norm;
  std::string attention_norm, attention_post_norm, q, k, v, o, q_bias, k_bias, v_bias, o_bias,
      q_norm, k_norm;
  std::string ffn_norm, ffn_post_norm, gate, up, down;
};
TensorNames gguf_tensor_names();
TensorNames huggingface_tensor_names();

// Bytes that load_weights will take under MemoryTag::weights.
int64_t weights_bytes(const ModelConfig& config,
                      const TensorNames& names,
                      const Checkpoint& checkpoint,
                      const Backend& backend);
// The same for a shape without a file, all matrices in `dtype`.
int64_t weights_bytes(const ModelConfig& config, DType dtype, const Backend& backend);

// Packs every tensor, checking its shape against the config. Throws Error{"model.missing_tensor",
// "model.bad_shape", "model.unsupported_type"} naming the tensor. `progress(done, total)` in bytes
// of the file.
ModelWeights load_weights(const ModelConfig& config,
                          const TensorNames& names,
                          const Checkpoint& checkpoint,
                          Backend& backend,
                          const std::function<void(int64_t, int64_t)>& progress);
// Random weights of the same shapes, the same for the same seed (`--load-format dummy`, tests).
ModelWeights dummy_weights(const ModelConfig& config, DType dtype, uint64_t seed, Backend& backend);

}  // namespace pagoda
