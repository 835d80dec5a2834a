// The copy that prefill over quantised KV attends (prefill_scratch.h): what its kernel is told, and
// its launch.
#pragma once

#include <cstdint>

#include "backend/cuda/launch.h"
#include "backend/cuda/prefill_params.h"

namespace pagoda::cuda {

struct PrefillConvertParams {
  const ScratchBlock* blocks;  // [num_blocks]
  const int32_t* block_table;  // [B, max_blocks]
  const uint8_t* kv;           // [N][KH][head_bytes]
  const float* k_scales;       // fp8: [KH] or null (1)
  const float* v_scales;
  uint8_t* scratch;        // [num_blocks][KH][K | V] of 128 tokens, 16-bit
  int32_t* scratch_table;  // [B, table_width]
  int64_t block_bytes;
  int32_t head_bytes, v_offset, k_scales_offset, v_scales_offset;
  int32_t max_blocks, block_size, table_width, num_blocks, kv_heads, head_dim;
  Format format;
  int32_t is_bf16;  // the copy; else f16
};

// head_dim one of 64, 80, 96, 128, 192, 256.
void launch_prefill_convert(const PrefillConvertParams& params, const LaunchOptions& options);

}  // namespace pagoda::cuda
