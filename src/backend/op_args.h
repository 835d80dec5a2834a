// The arguments of a backend's operations. Shapes: T tokens in the batch, B sequences, R rows, H
// query heads, KH KV heads, D head size, C hidden, F feed-forward, V vocabulary, N blocks, S tokens
// in a block.
//
// Activations are Backend::activation_dtype() (f32 on CPUs, bf16 on GPUs), row-major; they, and
// every span below unless it says "host", lie in backend memory. Outputs never alias inputs unless
// said. Every output element is a function of its own row alone: no operation's result may depend
// on how many rows, sequences or threads share the call (docs/architecture.md §4).
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "backend/attention_batch.h"
#include "backend/kv_format.h"
#include "backend/weight.h"
#include "base/tensor.h"

namespace pagoda {

struct EmbedArgs {
  const Weight& table;                // [V, C]
  std::span<const int32_t> ids;       // [T], each in [0, V)
  float scale = 1.f;                  // Gemma: sqrt(C)
  const Weight* positions = nullptr;  // [max_context, C], added by absolute position (GPT-2)
  std::span<const int32_t> position_ids = {};  // [T], with `positions`
  TensorView out;                              // [T, C]
};

enum class NormKind : uint8_t { rms, layer };

// RMSNorm (Zhang & Sennrich 2019) or LayerNorm (Ba et al. 2016). With `add`, x += add first and the
// sum is kept in x: the residual stream and the next norm in one pass. With `post_norm`, what is
// added is norm(add) (Gemma 2 and 3).
struct NormArgs {
  NormKind kind = NormKind::rms;
  float epsilon = 1e-5f;
  TensorView x;                    // [T, C]; written only with `add`
  ConstTensorView add = {};        // [T, C]
  ConstTensorView post_norm = {};  // [C] f32: weight of the norm of `add`
  ConstTensorView weight = {};     // [C] f32; empty with an empty out: only the addition is wanted
  ConstTensorView bias = {};       // [C] f32, layer norm
  TensorView out = {};             // [T, C]
};

// out[:, w's columns] = x · wᵀ + bias for each weight in turn, side by side: Q, K and V, or gate
// and up, in one call. All weights have the same cols; their dtypes may differ.
struct LinearArgs {
  ConstTensorView x;                       // [T, C]
  std::span<const Weight* const> weights;  // host; Σ rows = out.cols()
  ConstTensorView bias = {};               // [Σ rows] f32
  ConstTensorView residual = {};           // [T, Σ rows], added last; may be `out` itself
  TensorView out;                          // [T, Σ rows], f32 where it holds logits
  float softcap = 0.f;  // out = softcap * tanh(out / softcap), if > 0 (final logits of Gemma 2)
  float scale = 1.f;    // multiplies before the softcap (logit scale)
};

enum class Activation : uint8_t { silu, gelu_tanh, gelu_erf, relu };

// Gated (Shazeer 2020): out = f(x[:, :F]) * x[:, F:]; plain: out = f(x).
struct ActivationArgs {
  Activation function = Activation::silu;
  ConstTensorView x;  // gated: [T, 2F]; plain: [T, F]
  TensorView out;     // [T, F]: gated when x has twice its columns
};

// Rotary embedding (Su et al. 2021) angles of a step: out[t] = {cos, sin} of positions[t] *
// inv_freq[i], times `magnitude`.
struct RopeAnglesArgs {
  std::span<const int32_t> positions;  // [T]
  std::span<const float> inv_freq;     // [rotary_dim / 2], scaling rules applied; host
  float magnitude = 1.f;               // YaRN's attention factor
  TensorView out;                      // [T, rotary_dim / 2, 2] f32
};

enum class RopeStyle : uint8_t {
  interleaved,  // pairs (2i, 2i + 1): GPT-J, and LLaMA weights as GGUF files permute them
  half_split,   // pairs (i, i + rotary_dim / 2): GPT-NeoX, and LLaMA as Hugging Face stores it
  none,
};

// Normalises (where the model does) and rotates Q and K, and writes K and V to their slots in the
// cache's format. This step's own tokens are read back from there by attention, which may read the
// older ones before this operation has ended: nothing but a step's own tokens is stored by it.
struct RopeStoreKvArgs {
  TensorView q;                 // [T, H * D], in place; a slice of the QKV product
  ConstTensorView k;            // [T, KH * D]
  ConstTensorView v;            // [T, KH * D]
  int32_t num_heads = 0;        // H
  ConstTensorView q_norm = {};  // [D] f32, RMS per head (Qwen 3, Gemma 3)
  ConstTensorView k_norm = {};  // [D] f32
  float norm_epsilon = 1e-6f;
  RopeStyle style = RopeStyle::half_split;
  ConstTensorView angles = {};     // [T, rotary_dim / 2, 2] from rope_angles
  std::span<const int32_t> slots;  // [T]; -1: not stored
  KvView kv;
};

// Causal softmax(q · kᵀ * scale) · v over the paged cache (Dao et al. 2022; Kwon et al. 2023), with
// G = H / KH query heads to a KV head. Row at position p sees keys max(0, p - window + 1) … p. A
// row without keys gives 0 and log-sum-exp -inf. Right behind rope_store_kv, keys below a
// sequence's kv_len - q_len must have been written before it: they may be read while it still runs.
struct AttentionArgs {
  ConstTensorView q;  // [T, H * D]
  KvView kv;
  const AttentionBatch& batch;
  int32_t num_heads = 0;  // H
  float scale = 1.f;
  int32_t window = 0;   // 0: all
  float softcap = 0.f;  // scores = softcap * tanh(scores / softcap), if > 0
  ConstTensorView sinks =
      {};  // [H] f32: a logit per head that takes weight and gives no value (gpt-oss)
  AttentionAlgorithm algorithm = AttentionAlgorithm::flash;
  TensorView out;               // [T, H * D]
  TensorView log_sum_exp = {};  // [T, H] f32, natural log
};

// out[i] = x[rows[i]].
struct GatherRowsArgs {
  ConstTensorView x;              // [T, C]
  std::span<const int32_t> rows;  // [R]
  TensorView out;                 // [R, C]
};

}  // namespace pagoda
