// Gemma 3 (Gemma Team 2025): five layers that see a window, then one that sees all, each kind with
// its own rotary base; RMS norms before and after each block and on Q and K; GeGLU; embeddings
// scaled by sqrt(C) and tied to the output.
#include <cmath>

#include "base/error.h"
#include "base/half.h"
#include "model/families.h"
#include "model/families/gguf_config.h"

namespace pagoda {
namespace {

constexpr int32_t kLayersOfPattern = 6;  // the last of each six sees all keys
constexpr int32_t kLayersOf27B = 62;     // the one size whose scale is not 1 / sqrt(D)
enum RopeIndex : int32_t { kGlobalRope, kLocalRope };

}  // namespace

ModelDescription describe_gemma3_gguf(const Checkpoint& checkpoint) {
  const Metadata& m = checkpoint.metadata();
  ModelDescription d{common_gguf_config(checkpoint, "gemma3"), gguf_tensor_names()};
  ModelConfig& c = d.config;
  c.rope_style = RopeStyle::half_split;
  c.ropes.resize(2);
  c.ropes[kGlobalRope].theta = float(m.real_or("gemma3.rope.freq_base", 1e6));
  c.ropes[kLocalRope] = RopeConfig{.theta = float(m.real_or("gemma3.rope.freq_base_swa", 10000.0))};
  const int32_t window = config_int(m, "gemma3.attention.sliding_window");
  const bool has_one_pattern = !m.has("gemma3.attention.sliding_window_pattern");
  if (!has_one_pattern && m.integer("gemma3.attention.sliding_window_pattern") != kLayersOfPattern)
    throw Error("model.unsupported_config",
                "gemma3.attention.sliding_window_pattern: only {} is supported",
                kLayersOfPattern);
  for (int32_t i = 0; i < c.num_layers; i++) {
    const bool sees_all = i % kLayersOfPattern == kLayersOfPattern - 1;
    c.layers[i] = sees_all ? LayerConfig{.window = 0, .rope_index = kGlobalRope}
                           : LayerConfig{.window = window, .rope_index = kLocalRope};
  }
  c.has_post_norms = true;
  c.has_qk_norm = true;
  c.activation = Activation::gelu_tanh;
  c.embedding_scale = std::sqrt(float(c.hidden_size));
  if (c.num_layers == kLayersOf27B)
    c.attention_scale = 1.f / std::sqrt(float(c.hidden_size) / float(c.num_heads));
  c.final_softcap = float(m.real_or("gemma3.final_logit_softcapping", 0.0));
  return d;
}

}  // namespace pagoda
