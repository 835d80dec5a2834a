// What the naive attention kernel is told: see naive.cu, and naive.h for the operation.
#pragma once

#include <cstdint>

#include "backend/cuda/kv_layout.h"
#include "backend/cuda/launch.h"
#include "backend/cuda/row_params.h"

namespace pagoda::cuda {

struct NaiveParams {
  Rows q, out;         // [T, H * D]
  float* log_sum_exp;  // [T, H] or null
  const float* sinks;  // [H] or null
  const int32_t* cu_q_lens;
  const int32_t* kv_lens;
  const int32_t* block_table;
  const uint8_t* kv;
  int64_t block_bytes, sum_row_floats;
  int32_t head_bytes, v_offset, k_scales_offset, v_scales_offset;
  int32_t num_seqs, num_rows, max_blocks, block_size, num_heads, group, head_dim, window;
  float scale, softcap;
  Format format;
};
void launch_naive(const NaiveParams& params, const LaunchOptions& options);

}  // namespace pagoda::cuda
