// LLaMA 1 to 3 and models of the same shape (TinyLlama, SmolLM2, Mistral as GGUF): RMSNorm, rotary
// embedding, grouped-query attention, SwiGLU. Touvron et al. 2023; Grattafiori et al. 2024.
#include <cmath>

#include "base/error.h"
#include "model/families.h"
#include "model/families/gguf_config.h"

namespace pagoda {
namespace {

RopeConfig folder_rope(const Metadata& m, int32_t max_context) {
  RopeConfig rope;
  rope.theta = float(m.real_or("config.rope_theta", 10000.0));
  const std::string_view type = m.string_or("config.rope_scaling.rope_type",
                                            m.string_or("config.rope_scaling.type", "default"));
  rope.factor = float(m.real_or("config.rope_scaling.factor", 1.0));
  rope.original_context =
      int32_t(m.integer_or("config.rope_scaling.original_max_position_embeddings", max_context));
  if (type == "linear") {
    rope.scaling = RopeScaling::linear;
  } else if (type == "yarn") {
    rope.scaling = RopeScaling::yarn;
    rope.beta_fast = float(m.real_or("config.rope_scaling.beta_fast", 32.0));
    rope.beta_slow = float(m.real_or("config.rope_scaling.beta_slow", 1.0));
  } else if (type == "llama3") {
    rope.scaling = RopeScaling::llama3;
    rope.low_freq_factor = float(m.real("config.rope_scaling.low_freq_factor"));
    rope.high_freq_factor = float(m.real("config.rope_scaling.high_freq_factor"));
  } else if (type != "default") {
    throw Error("model.unsupported_config",
                "rope_scaling type is \"{}\"; known: default, linear, yarn, llama3",
                type);
  }
  return rope;
}

}  // namespace

ModelDescription describe_llama_gguf(const Checkpoint& checkpoint) {
  ModelDescription d{common_gguf_config(checkpoint, "llama"), gguf_tensor_names()};
  if (checkpoint.metadata().integer_or("llama.expert_count", 0) > 0)
    throw Error("model.unsupported_config",
                "llama.expert_count: mixtures of experts are not supported");
  d.config.rope_style = RopeStyle::interleaved;  // converters permute the rows of Q and K
  return d;
}

ModelDescription describe_llama_folder(const Checkpoint& checkpoint) {
  const Metadata& m = checkpoint.metadata();
  ModelDescription d{{}, huggingface_tensor_names()};
  ModelConfig& c = d.config;
  c.family = "llama";
  c.name = m.string_or("config._name_or_path", "llama");
  c.vocab_size = config_int(m, "config.vocab_size");
  c.hidden_size = config_int(m, "config.hidden_size");
  c.num_layers = config_int(m, "config.num_hidden_layers");
  c.num_heads = config_int(m, "config.num_attention_heads");
  c.num_kv_heads = m.has("config.num_key_value_heads") ? config_int(m, "config.num_key_value_heads")
                                                       : c.num_heads;
  c.intermediate_size = config_int(m, "config.intermediate_size");
  c.max_context = config_int(m, "config.max_position_embeddings");
  if (c.num_heads < 1 || c.num_layers > 1024)
    throw Error(
        "model.bad_config", "{} heads and {} layers cannot be a model", c.num_heads, c.num_layers);
  c.head_dim =
      m.has("config.head_dim") ? config_int(m, "config.head_dim") : c.hidden_size / c.num_heads;
  c.norm_epsilon = float(m.real_or("config.rms_norm_eps", 1e-6));
  c.rotary_dim = c.head_dim;
  c.rope_style = RopeStyle::half_split;
  c.attention_scale = c.head_dim > 0 ? 1.f / std::sqrt(float(c.head_dim)) : 0.f;
  c.ropes = {folder_rope(m, c.max_context)};
  c.layers.resize(c.num_layers);
  const bool has_file_without_head =
      !checkpoint.tensors().empty() && checkpoint.find(d.names.lm_head) == nullptr;
  c.has_tied_embeddings =
      m.boolean_or("config.tie_word_embeddings", false) || has_file_without_head;
  const std::string_view activation = m.string_or("config.hidden_act", "silu");
  if (activation != "silu")
    throw Error(
        "model.unsupported_config", "hidden_act is \"{}\"; a LLaMA model has silu", activation);
  return d;
}

}  // namespace pagoda
