// What the block kernel is told: see block_copy.cu, and block_copy.h for the operations.
#pragma once

#include <cstdint>

#include "backend/cuda/launch.h"

namespace pagoda::cuda {

constexpr int64_t kSliceBytes = 32 << 10;
constexpr int kMaxLayers = 96;
constexpr int kMaxMoves = 192;

struct BlockMove {
  int32_t from;  // < 0: zeroes
  int32_t to;
};

struct BlockParams {
  uint8_t* layers[kMaxLayers];
  BlockMove pairs[kMaxMoves];
  int64_t block_bytes;
  int32_t num_layers, num_pairs, num_slices;
};

void launch_blocks(const BlockParams& params, const LaunchOptions& options);

}  // namespace pagoda::cuda
