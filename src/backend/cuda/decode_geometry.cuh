// The sizes of a decode kernel: Geometry<format, head size, tiles, teams> says how rows of the
// cache look, what a slot of the ring and the rest of shared memory hold, and which dims a warp
// owns in the second product. Host and device use the same constants; one Geometry is one instance.
//
// Block: one or two teams of 4 consumer warps and 1 producer warp. Keys are the rows (M) of both
// products, the query heads of one KV head (8 x kTiles columns a team) the columns (N).
#pragma once

#include "backend/cuda/decode_params.h"
#include "backend/cuda/kv_layout.h"

namespace pagoda::cuda {

constexpr int kConsumerWarps = 4;  // of a team
constexpr int kTeamThreads = kConsumerWarps * 32;
constexpr int kStages = kChunk / kStageKeys;  // slots of K, and of V, in a chunk

template <Format kFormatOf, int kDims, int kTeamTiles, int kNumTeams>
struct Geometry {
  static constexpr Format kFormat = kFormatOf;
  static constexpr int kHeadDim = kDims;
  static constexpr int kTiles = kTeamTiles;  // of 8 columns, of a team
  static constexpr int kTeams = kNumTeams;
  static constexpr int kTeamColumns = 8 * kTiles;
  static constexpr int kColumns = kTeams * kTeamColumns;
  static constexpr int kThreads = kTeams * kTeamThreads + 32;

  static constexpr bool kBf16 = kFormat == Format::bf16;  // operands of both products, else f16
  static constexpr bool kPlain = kFormat == Format::bf16 || kFormat == Format::f16;
  static constexpr int kBits = kPlain ? 16 : kFormat == Format::int4 ? 4 : 8;
  static constexpr int kRowBytes = kDims * kBits / 8;
  static_assert(kRowBytes % 16 == 0);
  static constexpr int kGroups = kFormat == Format::int4 ? (kDims + 63) / 64 : 1;  // per scale
  static constexpr int kScaleBytes = kFormat == Format::int8   ? 2
                                     : kFormat == Format::int4 ? 4 * kGroups
                                                               : 0;  // per token, of K or V
  static constexpr int kDataBytes = kStageKeys * kRowBytes;
  static constexpr int kSlotBytes = kDataBytes + 2 * kStageKeys * kScaleBytes;

  // wgmma wants whole 128-byte atoms; its 64 rows of the second product are 64 dims.
  static constexpr bool kWantsWgmma = kPlain && kTeams == 2 && kDims % 64 == 0;
  static constexpr bool kQueryInShared = kTeams == 2;
  // Tiles of 16 dims that a warp owns; int4 comes in pairs of tiles, 32 dims in a 16-byte unit.
  static constexpr int kDimTiles = kFormat == Format::int4
                                       ? 2 * ((kDims + 127) / 128)
                                       : (kDims + 16 * kConsumerWarps - 1) / (16 * kConsumerWarps);
  // int4: weights carry the scale of a group of 64 dims; set i of a warp is of group 2 i + warp
  // / 2.
  static constexpr int kWeightSets = kFormat == Format::int4 ? kDimTiles / 2 : 1;

  // Shared memory: barriers, columns, exchange; queries; weights; the ring.
  static constexpr int kExchanges = 2 + (kFormat == Format::int4 ? kGroups : 0);
  static constexpr int kColumnsAt = 512;
  static constexpr int kExchangeAt = kColumnsAt + 2 * kColumns * 32;
  static constexpr int kExchangeBytes = kExchanges * kConsumerWarps * kTeamColumns * 4;
  static constexpr int kQueryAt = (kExchangeAt + kTeams * kExchangeBytes + 1023) / 1024 * 1024;
  static constexpr int kQueryBytes = kQueryInShared ? kTeamColumns * kDims * 2 : 0;
  static constexpr int kWeightsAt = kQueryAt + kTeams * kQueryBytes;
  static constexpr int kWeightsBytes = kGroups * kTeamColumns * kChunk * 2;
  static constexpr int kRingAt = kWeightsAt + kTeams * kWeightsBytes;
  static constexpr int shared_bytes(int slots) { return kRingAt + slots * kSlotBytes; }

  // Registers for a second sum: items of several sections.
  static constexpr bool kWholeRows = kTeams == 1 && kFormat != Format::int4;

  // Per multiprocessor, as measured (docs/kernels.md).
  static constexpr bool kHeavy = kDims > 128 && (kTeams == 2 || kFormat == Format::int4);
  static constexpr int kMinBlocks = kHeavy ? 1 : kFormat == Format::int4 && kDims <= 128 ? 3 : 2;
};

}  // namespace pagoda::cuda
