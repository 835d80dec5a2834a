// The one formula for KV memory: pure functions from what layers ask for (KvLayerSpec) to groups,
// bytes per token, bytes per block and numbers of blocks. `pagoda plan` prints them, KvStorage
// allocates by them.
//
// Layers of one spec are cut into groups of `layers_per_group`; all layers of a group share a block
// table. There is one pool of blocks; a block has a slot for each of layers_per_group layers, so
// that any group can use any block. Slots without a layer are padding, and stated.
//   KV bytes of a token = Σ layers 2 * KH * D * bytes(dtype) (+ scales).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/kv_format.h"

namespace pagoda {

struct KvGroup {
  KvLayerSpec spec;        // spec.group: its own index
  int32_t num_layers = 0;  // <= KvLayout::layers_per_group
};

struct KvLayerPlace {
  int32_t group = 0;
  int32_t slot = 0;  // which of the group's layers
};

struct KvLayout {
  KvDType dtype = KvDType::bf16;
  int32_t block_size = 16;  // S
  int32_t layers_per_group = 0;
  std::vector<KvGroup> groups;
  std::vector<KvLayerPlace> layers;     // [L]
  std::vector<int32_t> group_of_layer;  // [L], as ForwardBatch wants it

  KvFormat format(int32_t group) const;
  int64_t layer_block_bytes() const;  // one block of one layer; the same for every group
  int64_t block_bytes() const { return layers_per_group * layer_block_bytes(); }
  int32_t num_padding_layers() const;
  // Stored bytes of one token over all layers, padding not counted.
  int64_t bytes_per_token() const;
  // The most blocks that one sequence of `tokens` holds in `group` (in all groups), when a step
  // adds at most `chunk` tokens: ceil(tokens / S), or for a window of W ceil((W - 1 + chunk) / S) +
  // 1 where that is less.
  int64_t blocks_of_sequence(int32_t group, int64_t tokens, int64_t chunk) const;
  int64_t blocks_of_sequence(int64_t tokens, int64_t chunk) const;
  // The longest sequence that `num_blocks` hold, up to `most`.
  int64_t tokens_within(int64_t num_blocks, int64_t chunk, int64_t most) const;
};

// `block_size` 0: the default of the dtype. Throws Error{"kv.unsupported_layout"} where layers'
// blocks have different sizes, {"kv.bad_block_size"} unless it is a multiple of 16.
KvLayout make_kv_layout(std::span<const KvLayerSpec> layers, KvDType dtype, int32_t block_size);

// KvLayout::blocks_of_sequence for one group.
int64_t kv_blocks_of_sequence(int32_t window, int32_t block_size, int64_t tokens, int64_t chunk);

// The most tokens, up to `most`, for which blocks_of(tokens) <= num_blocks; blocks_of rises.
template <typename BlocksOf>
int64_t kv_tokens_within(BlocksOf&& blocks_of, int64_t num_blocks, int64_t most) {
  int64_t fits = 0, too_many = most + 1;
  while (too_many - fits > 1) {
    const int64_t middle = fits + (too_many - fits) / 2;
    (blocks_of(middle) <= num_blocks ? fits : too_many) = middle;
  }
  return fits;
}

// Blocks that `bytes` hold, and the bytes of blocks. Throws Error{"kv.size_overflow"}.
int64_t kv_blocks_within(const KvLayout& layout, int64_t bytes);
int64_t kv_bytes(const KvLayout& layout, int64_t num_blocks);

}  // namespace pagoda
