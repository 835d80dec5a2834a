#include "backend/cuda/block_copy.h"

#include <algorithm>
#include <vector>

#include "backend/cuda/block_params.h"
#include "base/checked.h"
#include "base/error.h"

namespace pagoda::cuda {
namespace {

void move_blocks(std::span<const KvView> layers,
                 std::span<const BlockMove> pairs,
                 const LaunchOptions& options) {
  BlockParams p = {};
  size_t at = 0;
  while (at < layers.size()) {  // layers of one size of block travel together
    p.block_bytes = layers[at].block_bytes();
    PG_CHECK(p.block_bytes % 16 == 0, "{} bytes", p.block_bytes);
    size_t n = 0;
    while (n < kMaxLayers && at + n < layers.size() &&
           layers[at + n].block_bytes() == p.block_bytes) {
      p.layers[n] = reinterpret_cast<uint8_t*>(layers[at + n].base);
      n++;
    }
    p.num_slices = static_cast<int32_t>(ceil_div(p.block_bytes, kSliceBytes));
    for (size_t first = 0; first < pairs.size(); first += kMaxMoves) {
      p.num_pairs = static_cast<int32_t>(std::min<size_t>(kMaxMoves, pairs.size() - first));
      std::copy_n(pairs.data() + first, p.num_pairs, p.pairs);
      p.num_layers = static_cast<int32_t>(n);
      launch_blocks(p, options);
    }
    at += n;
  }
}

}  // namespace

void copy_blocks(std::span<const KvView> layers,
                 std::span<const BlockCopy> copies,
                 const LaunchOptions& options) {
  std::vector<BlockMove> pairs;
  for (const BlockCopy& copy : copies) pairs.push_back({copy.from, copy.to});
  move_blocks(layers, pairs, options);
}

void zero_blocks(std::span<const KvView> layers,
                 std::span<const int32_t> blocks,
                 const LaunchOptions& options) {
  std::vector<BlockMove> pairs;
  for (int32_t block : blocks) pairs.push_back({-1, block});
  move_blocks(layers, pairs, options);
}

}  // namespace pagoda::cuda
