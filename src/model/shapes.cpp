#include "model/shapes.h"

#include <cmath>

namespace pagoda {
namespace {

struct Shape {
  std::string_view name;
  std::string_view family;
  int32_t vocabulary, hidden, layers, heads, kv_heads, head_dim, intermediate, context;
  float theta;
  int32_t window = 0;   // of the layers that have one
  int32_t pattern = 0;  // the last of each `pattern` layers sees all; 0: all see `window`
  bool is_tied = false;
};

constexpr Shape kShapes[] = {
    // name, family, V, C, L, H, KH, D, F, context, theta
    {"smollm2-135m", "llama", 49152, 576, 30, 9, 3, 64, 1536, 8192, 1e5f, 0, 0, true},
    {"tinyllama-1.1b", "llama", 32000, 2048, 22, 32, 4, 64, 5632, 2048, 1e4f},
    {"llama2-7b", "llama", 32000, 4096, 32, 32, 32, 128, 11008, 4096, 1e4f},
    {"llama2-13b", "llama", 32000, 5120, 40, 40, 40, 128, 13824, 4096, 1e4f},
    {"llama2-70b", "llama", 32000, 8192, 80, 64, 8, 128, 28672, 4096, 1e4f},
    {"llama3-8b", "llama", 128256, 4096, 32, 32, 8, 128, 14336, 8192, 5e5f},
    {"llama3-70b", "llama", 128256, 8192, 80, 64, 8, 128, 28672, 8192, 5e5f},
    {"mistral-7b", "llama", 32000, 4096, 32, 32, 8, 128, 14336, 32768, 1e6f},
    {"qwen3-8b", "qwen3", 151936, 4096, 36, 32, 8, 128, 12288, 40960, 1e6f},
    {"gemma3-270m", "gemma3", 262144, 640, 18, 4, 1, 256, 2048, 32768, 1e6f, 512, 6, true},
    {"gemma3-27b", "gemma3", 262208, 5376, 62, 32, 16, 128, 21504, 131072, 1e6f, 1024, 6, true},
};

ModelConfig config_of(const Shape& s) {
  ModelConfig c;
  c.family = s.family;
  c.name = s.name;
  c.vocab_size = s.vocabulary;
  c.hidden_size = s.hidden;
  c.num_layers = s.layers;
  c.num_heads = s.heads;
  c.num_kv_heads = s.kv_heads;
  c.head_dim = s.head_dim;
  c.intermediate_size = s.intermediate;
  c.max_context = s.context;
  c.rotary_dim = s.head_dim;
  c.attention_scale = 1.f / std::sqrt(float(s.head_dim));
  c.ropes = {RopeConfig{.theta = s.theta}};
  c.has_tied_embeddings = s.is_tied;
  c.has_qk_norm = s.family == "qwen3" || s.family == "gemma3";
  if (s.family == "gemma3") {
    c.ropes.push_back(RopeConfig{.theta = 1e4f});
    c.has_post_norms = true;
    c.activation = Activation::gelu_tanh;
    c.embedding_scale = std::sqrt(float(s.hidden));
  }
  for (int32_t i = 0; i < s.layers; i++) {
    const bool sees_all = s.pattern == 0 || i % s.pattern == s.pattern - 1;
    c.layers.push_back({.window = sees_all ? 0 : s.window, .rope_index = sees_all ? 0 : 1});
  }
  return c;
}

}  // namespace

std::optional<ModelConfig> shape_named(std::string_view name) {
  for (const Shape& shape : kShapes)
    if (shape.name == name) return config_of(shape);
  return std::nullopt;
}

std::vector<std::string> shape_names() {
  std::vector<std::string> names;
  for (const Shape& shape : kShapes) names.emplace_back(shape.name);
  return names;
}

}  // namespace pagoda
