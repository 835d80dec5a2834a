// ModelConfig: a decoder-only transformer as data. Families fill it from a checkpoint's metadata;
// the forward pass reads it and knows no family. A trait that a new model needs is one field here
// and a few lines in model.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/kv_format.h"
#include "backend/op_args.h"

namespace pagoda {

// One set of rotary frequencies: inv_freq[i] = theta^(-2i / rotary_dim), changed by the scaling
// rule.
enum class RopeScaling : uint8_t { none, linear, llama3, yarn };
struct RopeConfig {
  float theta = 10000.f;
  RopeScaling scaling = RopeScaling::none;
  float factor = 1.f;
  float low_freq_factor = 1.f;  // llama3
  float high_freq_factor = 4.f;
  int32_t original_context = 0;  // llama3, yarn
  float beta_fast = 32.f;        // yarn (Peng et al. 2023)
  float beta_slow = 1.f;
  std::vector<float> divisors =
      {};  // [rotary_dim / 2] from the checkpoint (rope_freqs.weight); empty: none

  friend bool operator==(const RopeConfig&, const RopeConfig&) = default;
};

// What differs from layer to layer.
struct LayerConfig {
  int32_t window = 0;      // 0: sees all
  int32_t rope_index = 0;  // into ModelConfig::ropes
};

struct ModelConfig {
  std::string family;  // "llama"
  std::string name;    // as the file says; for people
  int32_t vocab_size = 0;
  int32_t hidden_size = 0;        // C
  int32_t num_layers = 0;         // L
  int32_t num_heads = 0;          // H
  int32_t num_kv_heads = 0;       // KH
  int32_t head_dim = 0;           // D
  int32_t intermediate_size = 0;  // F
  int32_t max_context = 0;        // positions that the model was trained for
  std::vector<LayerConfig> layers;

  NormKind norm = NormKind::rms;
  float norm_epsilon = 1e-5f;
  bool has_post_norms =
      false;  // norms on each block's output before it joins the residual (Gemma 2, 3)
  bool has_qk_norm = false;  // RMS per head on Q and K (Qwen 3, Gemma 3)

  RopeStyle rope_style = RopeStyle::half_split;
  int32_t rotary_dim = 0;
  std::vector<RopeConfig> ropes;

  float attention_scale = 0.f;    // usually 1 / sqrt(D)
  float attention_softcap = 0.f;  // 0: none
  Activation activation = Activation::silu;
  bool is_gated = true;

  float embedding_scale = 1.f;
  bool has_tied_embeddings = false;
  float final_softcap = 0.f;
  float logit_scale = 1.f;

  int32_t qkv_size() const { return (num_heads + 2 * num_kv_heads) * head_dim; }
  // What each layer asks of the KV cache; `group` is left for the cache to fill.
  std::vector<KvLayerSpec> kv_specs() const;
  // Throws Error{"model.bad_config"} naming the field, where the numbers cannot be a model.
  void validate() const;
};

// [rotary_dim / 2] frequencies with the scaling rule applied, and YaRN's attention factor.
struct RopeFrequencies {
  std::vector<float> inv_freq;
  float magnitude = 1.f;
};
RopeFrequencies rope_frequencies(const RopeConfig& rope, int32_t rotary_dim);

}  // namespace pagoda
