// The float64 reference of decode attention and the generator of random rows, as kernels. It reads
// the cache element by element through kv_layout.h.
#pragma once

#include <cstdint>

#include "backend/cuda/kv_layout.h"
#include "backend/cuda/launch.h"

namespace pagoda::cuda {

// Of the cache's elements, before they are used.
enum class ReferenceRounding : int32_t { none, bf16, f16 };

struct ReferenceParams {
  const uint8_t* kv;
  const void* q;
  const float* sinks;
  const float* k_scales;
  const float* v_scales;
  const int32_t* block_table;
  const int32_t* rows;  // [T]{sequence, position, first key}
  double* scores;       // [T, H, max_keys]
  double* out;          // [T, H, D]
  double* log_sum_exp;  // [T, H]
  int64_t block_bytes;
  int32_t head_bytes, v_offset, k_scales_offset, v_scales_offset;
  int32_t max_blocks, block_size, num_heads, group, head_dim, max_keys;
  double scale, softcap;
  Format format;
  int32_t q_is_bf16;
  ReferenceRounding rounding;
};

void launch_reference(const ReferenceParams& params, int32_t num_rows, cudaStream_t stream);

struct RandomParams {
  void* rows;           // [n, width] bf16 or f16
  const uint64_t* ids;  // [n]
  int64_t n;
  int32_t width;
  uint32_t seed;
  float gain;
  int32_t is_bf16;
};
void launch_random(const RandomParams& params, cudaStream_t stream);

// One element of the cache, as stored.
struct ReadParams {
  const uint8_t* kv;
  const int64_t* slots;  // [n]
  float* out;            // [n, KH, 2, D]
  const float* k_scales;
  const float* v_scales;
  int64_t n, block_bytes;
  int32_t head_bytes, v_offset, k_scales_offset, v_scales_offset, block_size, kv_heads, head_dim;
  Format format;
};
void launch_read(const ReadParams& params, cudaStream_t stream);

}  // namespace pagoda::cuda
