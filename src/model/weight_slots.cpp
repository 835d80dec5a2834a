#include "model/weight_slots.h"

namespace pagoda {

std::vector<MatrixSlot> matrix_slots(const ModelConfig& c) {
  const int64_t q_size = int64_t{c.num_heads} * c.head_dim,
                kv_size = int64_t{c.num_kv_heads} * c.head_dim;
  std::vector<MatrixSlot> slots = {
      {&LayerWeights::q, &TensorNames::q, q_size, c.hidden_size},
      {&LayerWeights::k, &TensorNames::k, kv_size, c.hidden_size},
      {&LayerWeights::v, &TensorNames::v, kv_size, c.hidden_size},
      {&LayerWeights::o, &TensorNames::o, c.hidden_size, q_size},
      {&LayerWeights::up, &TensorNames::up, c.intermediate_size, c.hidden_size},
      {&LayerWeights::down, &TensorNames::down, c.hidden_size, c.intermediate_size},
  };
  if (c.is_gated)
    slots.push_back({&LayerWeights::gate, &TensorNames::gate, c.intermediate_size, c.hidden_size});
  return slots;
}

std::vector<VectorSlot> vector_slots(const ModelConfig& c) {
  using Need = VectorSlot::Need;
  const int64_t q_size = int64_t{c.num_heads} * c.head_dim,
                kv_size = int64_t{c.num_kv_heads} * c.head_dim;
  std::vector<VectorSlot> slots = {
      {&LayerWeights::attention_norm,
       {{&TensorNames::attention_norm, c.hidden_size}},
       Need::required},
      {&LayerWeights::ffn_norm, {{&TensorNames::ffn_norm, c.hidden_size}}, Need::required},
      {&LayerWeights::qkv_bias,
       {{&TensorNames::q_bias, q_size},
        {&TensorNames::k_bias, kv_size},
        {&TensorNames::v_bias, kv_size}},
       Need::optional},
      {&LayerWeights::o_bias, {{&TensorNames::o_bias, c.hidden_size}}, Need::optional},
  };
  if (c.has_post_norms) {
    slots.push_back({&LayerWeights::attention_post_norm,
                     {{&TensorNames::attention_post_norm, c.hidden_size}},
                     Need::required});
    slots.push_back({&LayerWeights::ffn_post_norm,
                     {{&TensorNames::ffn_post_norm, c.hidden_size}},
                     Need::required});
  }
  if (c.has_qk_norm) {
    slots.push_back({&LayerWeights::q_norm, {{&TensorNames::q_norm, c.head_dim}}, Need::required});
    slots.push_back({&LayerWeights::k_norm, {{&TensorNames::k_norm, c.head_dim}}, Need::required});
  }
  return slots;
}

TensorNames gguf_tensor_names() {
  TensorNames n;
  n.embedding = "token_embd.weight";
  n.lm_head = "output.weight";
  n.final_norm = "output_norm.weight";
  n.attention_norm = "blk.{}.attn_norm.weight";
  n.attention_post_norm = "blk.{}.post_attention_norm.weight";
  n.q = "blk.{}.attn_q.weight";
  n.k = "blk.{}.attn_k.weight";
  n.v = "blk.{}.attn_v.weight";
  n.o = "blk.{}.attn_output.weight";
  n.q_bias = "blk.{}.attn_q.bias";
  n.k_bias = "blk.{}.attn_k.bias";
  n.v_bias = "blk.{}.attn_v.bias";
  n.o_bias = "blk.{}.attn_output.bias";
  n.q_norm = "blk.{}.attn_q_norm.weight";
  n.k_norm = "blk.{}.attn_k_norm.weight";
  n.ffn_norm = "blk.{}.ffn_norm.weight";
  n.ffn_post_norm = "blk.{}.post_ffw_norm.weight";
  n.gate = "blk.{}.ffn_gate.weight";
  n.up = "blk.{}.ffn_up.weight";
  n.down = "blk.{}.ffn_down.weight";
  return n;
}

TensorNames huggingface_tensor_names() {
  TensorNames n;
  n.embedding = "model.embed_tokens.weight";
  n.lm_head = "lm_head.weight";
  n.final_norm = "model.norm.weight";
  n.attention_norm = "model.layers.{}.input_layernorm.weight";
  n.q = "model.layers.{}.self_attn.q_proj.weight";
  n.k = "model.layers.{}.self_attn.k_proj.weight";
  n.v = "model.layers.{}.self_attn.v_proj.weight";
  n.o = "model.layers.{}.self_attn.o_proj.weight";
  n.q_bias = "model.layers.{}.self_attn.q_proj.bias";
  n.k_bias = "model.layers.{}.self_attn.k_proj.bias";
  n.v_bias = "model.layers.{}.self_attn.v_proj.bias";
  n.o_bias = "model.layers.{}.self_attn.o_proj.bias";
  n.ffn_norm = "model.layers.{}.post_attention_layernorm.weight";
  n.gate = "model.layers.{}.mlp.gate_proj.weight";
  n.up = "model.layers.{}.mlp.up_proj.weight";
  n.down = "model.layers.{}.mlp.down_proj.weight";
  return n;
}

}  // namespace pagoda
