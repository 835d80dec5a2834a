#include "model/families/gguf_config.h"

#include <cmath>

#include "base/dequantise.h"
#include "base/error.h"

namespace pagoda {
namespace {

RopeConfig rope_of(const Checkpoint& checkpoint,
                   std::string_view architecture,
                   int32_t max_context) {
  const Metadata& m = checkpoint.metadata();
  RopeConfig rope;
  rope.theta = float(m.real_or(gguf_key(architecture, "rope.freq_base"), 10000.0));
  const std::string_view type = m.string_or(gguf_key(architecture, "rope.scaling.type"), "none");
  rope.factor = float(m.real_or(gguf_key(architecture, "rope.scaling.factor"), 1.0));
  rope.original_context = int32_t(
      m.integer_or(gguf_key(architecture, "rope.scaling.original_context_length"), max_context));
  if (type == "linear") {
    rope.scaling = RopeScaling::linear;
  } else if (type == "yarn") {
    rope.scaling = RopeScaling::yarn;
  } else if (type != "none") {
    throw Error(
        "model.unsupported_config", "rope.scaling.type is \"{}\"; known: none, linear, yarn", type);
  }
  if (const CheckpointTensor* factors = checkpoint.find("rope_freqs.weight"); factors != nullptr) {
    if (factors->view.dtype() != DType::f32 || factors->view.rank() != 1)
      throw Error("model.bad_shape", "tensor rope_freqs.weight: expected one row of f32");
    rope.divisors.resize(factors->view.num_elements());
    dequantise_row(DType::f32, factors->view.data(), rope.divisors);
  }
  return rope;
}

}  // namespace

std::string gguf_key(std::string_view architecture, std::string_view suffix) {
  return std::string(architecture) + "." + std::string(suffix);
}

int32_t config_int(const Metadata& metadata, std::string_view key) {
  const int64_t value = metadata.integer(key);
  if (value < 0 || value > INT32_MAX)
    throw Error("model.bad_config", "{} is {}: expected 0 to 2^31 - 1", key, value);
  return int32_t(value);
}

ModelConfig common_gguf_config(const Checkpoint& checkpoint, std::string_view architecture) {
  const Metadata& m = checkpoint.metadata();
  auto integer = [&](std::string_view suffix) {
    return config_int(m, gguf_key(architecture, suffix));
  };
  auto integer_or = [&](std::string_view suffix, int32_t otherwise) {
    return m.has(gguf_key(architecture, suffix)) ? integer(suffix) : otherwise;
  };
  ModelConfig c;
  c.family = architecture;
  c.name = m.string_or("general.name", architecture);
  c.hidden_size = integer("embedding_length");
  c.num_layers = integer("block_count");
  c.num_heads = integer("attention.head_count");
  c.num_kv_heads = integer_or("attention.head_count_kv", c.num_heads);
  c.intermediate_size = integer("feed_forward_length");
  c.max_context = integer("context_length");
  if (c.num_heads < 1 || c.num_layers > 1024)
    throw Error(
        "model.bad_config", "{} heads and {} layers cannot be a model", c.num_heads, c.num_layers);
  c.head_dim = integer_or("attention.key_length", c.hidden_size / c.num_heads);
  if (integer_or("attention.value_length", c.head_dim) != c.head_dim)
    throw Error("model.unsupported_config",
                "key and value heads of different sizes are not supported");
  c.norm_epsilon = float(m.real(gguf_key(architecture, "attention.layer_norm_rms_epsilon")));
  c.rotary_dim = integer_or("rope.dimension_count", c.head_dim);
  c.attention_scale = c.head_dim > 0 ? 1.f / std::sqrt(float(c.head_dim)) : 0.f;
  c.ropes = {rope_of(checkpoint, architecture, c.max_context)};
  c.layers.resize(c.num_layers);

  const ConstTensorView embedding = checkpoint.tensor("token_embd.weight").view;
  c.vocab_size =
      embedding.rank() == 2 && embedding.dim(0) <= INT32_MAX ? int32_t(embedding.dim(0)) : 0;
  if (m.has("tokenizer.ggml.tokens")) {
    const auto num_tokens = int64_t(m.strings("tokenizer.ggml.tokens").size());
    if (num_tokens > c.vocab_size)
      throw Error("model.bad_config",
                  "the vocabulary has {} tokens but token_embd.weight only {} rows",
                  num_tokens,
                  c.vocab_size);
  }
  c.has_tied_embeddings = checkpoint.find("output.weight") == nullptr;
  return c;
}

}  // namespace pagoda
