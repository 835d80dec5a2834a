// PrefillMmaGeometry: all that the template parameters of a prefill kernel by mma.sync decide. A
// warp owns 16 x kRowTiles query rows, a block kWarps of them; K and V come in tiles of kKeys keys
// at absolute positions. Q, K and V tiles lie in shared memory as 16-bit rows of kDims in the
// cache's own order (kv_layout.h: 8-row groups of 128-byte atoms), whatever the head size: smaller
// heads are padded with zeros there. Behind them, for quantised KV, lies a slot of codes for each
// group of 8 keys, of K and of V.
#pragma once

#include "backend/cuda/kv_layout.h"
#include "backend/cuda/mma.cuh"
#include "backend/cuda/prefill_params.h"

namespace pagoda::cuda {

template <bool kBf16_, int kDims_, int kKeys_, int kWarps_, int kRowTiles_, int kBlocks_>
struct PrefillMmaGeometry {
  static constexpr bool kBf16 = kBf16_;  // operands; f16 also serves quantised KV
  static constexpr int kDims = kDims_;
  static constexpr int kKeys = kKeys_;
  static constexpr int kWarps = kWarps_;
  static constexpr int kRowTiles = kRowTiles_;  // of 16 rows, of a warp
  static constexpr int kBlocks = kBlocks_;      // on a multiprocessor of the H200
  static constexpr int kWarpRows = 16 * kRowTiles;
  static constexpr int kRows = kWarpRows * kWarps;
  static constexpr int kThreads = 32 * kWarps;

  static constexpr int kRowBytes = 2 * kDims;
  static constexpr int kUnits = kRowBytes / 16;      // of 8 numbers, in a row
  static constexpr int kGroupBytes = 8 * kRowBytes;  // of 8 keys
  static constexpr int kGroups = kKeys / 8;
  static constexpr int kWarpGroups = kGroups / kWarps;  // that a warp loads
  static_assert(kRowBytes % 128 == 0 && kGroups % kWarps == 0);

  static constexpr int kQBytes = kRows * kRowBytes;
  static constexpr int kTileBytes = kKeys * kRowBytes;
  static constexpr int kKAt = kQBytes;
  static constexpr int kVAt = kKAt + kTileBytes;
  static constexpr int kCodesAt = kVAt + kTileBytes;
  static constexpr int kSlotBytes = 8 * kDims + 16;  // codes and scales of 8 keys
  static constexpr int kCodesBytes = kGroups * kSlotBytes;
  static constexpr int kPlainBytes = kCodesAt + 128;  // for alignment
  static constexpr int kQuantisedBytes = kPlainBytes + 2 * kCodesBytes;

  // bf16 weights may start at 2^-8 of what they may grow to; f16 has too few exponents for that.
  static constexpr float kHeadroom = kBf16 ? 8.f : 2.f;
};

// A row tile as the block's warps read it, in shared memory: row tile j in slot j % 4.
struct alignas(16) PrefillMmaSlot {
  PrefillTile tile;  // without its head
  int32_t head, kv_head;
  int32_t head_offset;  // bytes from a block of the cache to the KV head
  int32_t unused;
};
constexpr int kPrefillMmaSlots = 4;

// Key tiles that rows of a warp see, and those of them where something is masked: >= and <.
struct alignas(16) PrefillMmaRange {
  int32_t begin, end;
  int32_t mask_from, mask_below;
};

__device__ __forceinline__ int
thread_index() {  // read anew where it is needed: registers are short
  int x;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(x));
  return x;
}

// Byte offset of 16-byte unit `unit` of row `row` of 8 rows as the cache holds them, for a row
// width that is known at run time.
__device__ __forceinline__ int cache_unit_offset(int log_atom_bytes, int row, int unit) {
  const int log_units = log_atom_bytes - 4;
  const int within = (unit & ((1 << log_units) - 1)) ^ (row >> (7 - log_atom_bytes));
  return (unit >> log_units << (log_atom_bytes + 3)) + (row << log_atom_bytes) + within * 16;
}

}  // namespace pagoda::cuda
