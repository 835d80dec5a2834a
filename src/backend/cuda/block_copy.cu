// copy_blocks, zero_blocks: bytes of blocks, layer by layer.
//   In: layers' bases [L], pairs {from, to} [n] (from < 0: zeroes). Out: the blocks `to`.
//   A thread block moves one slice of 32 KiB of one (layer, pair), 16 bytes a thread and step.
//   Moves 2 x block bytes x L x n (half of it for zeroes).
//   Limits, checked by block_copy.cpp: block bytes a multiple of 16, offsets in 64 bits.
//   Must equal memcpy.
#include "backend/cuda/block_params.h"
#include "backend/cuda/ptx.cuh"

namespace pagoda::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kUnroll = 4;

__global__ void __launch_bounds__(kThreads) block_kernel(const __grid_constant__ BlockParams p) {
  const int slice = blockIdx.x % p.num_slices;
  const int pair = blockIdx.x / p.num_slices % p.num_pairs;
  uint8_t* base = p.layers[blockIdx.x / p.num_slices / p.num_pairs];
  const BlockMove move = p.pairs[pair];
  pdl_wait();
  pdl_launch_next();
  const int64_t end = min(p.block_bytes, (slice + 1) * kSliceBytes);
  const auto* from = reinterpret_cast<const uint4*>(base + max(0, move.from) * p.block_bytes);
  auto* to = reinterpret_cast<uint4*>(base + move.to * p.block_bytes);
  for (int64_t i = slice * kSliceBytes / 16 + threadIdx.x; i < end / 16; i += kThreads * kUnroll) {
    uint4 x[kUnroll] = {};
#pragma unroll
    for (int j = 0; j < kUnroll; j++)
      if (move.from >= 0 && i + j * kThreads < end / 16) x[j] = from[i + j * kThreads];
#pragma unroll
    for (int j = 0; j < kUnroll; j++)
      if (i + j * kThreads < end / 16) to[i + j * kThreads] = x[j];
  }
}

}  // namespace

void launch_blocks(const BlockParams& params, const LaunchOptions& options) {
  launch_kernel(block_kernel,
                {params.num_layers * params.num_pairs * params.num_slices, kThreads, 0},
                options,
                params);
}

}  // namespace pagoda::cuda
