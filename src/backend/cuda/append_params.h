// What the append kernel is told: see append.cu, and append.h for the operation.
#pragma once

#include <cstdint>

#include "backend/cuda/kv_layout.h"
#include "backend/cuda/launch.h"

namespace pagoda::cuda {

enum class Rotation : int32_t { none, interleaved, half_split };

struct AppendParams {
  void* q;
  const void* k;
  const void* v;
  int64_t q_row_bytes, k_row_bytes, v_row_bytes;
  const float* q_norm;
  const float* k_norm;
  const float* angles;  // null: no rotation
  const int32_t* slots;
  const float* k_scales;
  const float* v_scales;
  uint8_t* kv;
  int64_t block_bytes;
  int32_t head_bytes, v_offset, k_scales_offset, v_scales_offset;
  int32_t row_bytes;  // of K and of V in the cache
  int32_t block_size, num_tokens, num_heads, kv_heads, head_dim, num_pairs;
  float norm_epsilon;
  Rotation rotation;
  Format format;
  int32_t is_bf16;
};

void launch_append(const AppendParams& params, const LaunchOptions& options);

}  // namespace pagoda::cuda
