// The sizes of a decode kernel. Geometry<format, dims> serves heads of `dims` with constants and
// smaller ones with sizes known at run time (Head); Team<Geometry, tiles> is what a team has.
//
// Block: 1 to kMaxTeams teams of 4 warps, then 1 producer warp. Keys are the rows (M) of both
// products, the query heads of one KV head the columns (N). All teams read the same slots of the
// ring. A team has 8 columns; or 16, in the wide kernel: then, on Hopper, wgmma multiplies, and
// bf16 or f16 is a choice at run time.
#pragma once

#include <algorithm>

#include "backend/cuda/decode_params.h"
#include "backend/cuda/kv_layout.h"
#include "backend/cuda/ptx.cuh"

namespace pagoda::cuda {

constexpr int kTeamWarps = 4;
constexpr int kTeamThreads = kTeamWarps * 32;
constexpr int kStepKeys = 64;  // what a team's warps take side by side, 16 each
constexpr int kSteps = kChunk / kStepKeys;

template <Format kFormatOf, int kMostDims>
struct Geometry {
  static constexpr Format kFormat = kFormatOf;
  static constexpr int kDims = kMostDims;

  static constexpr bool kBf16 = kFormat == Format::bf16;  // operands of both products, else f16
  static constexpr bool kPlain = kFormat == Format::bf16 || kFormat == Format::f16;
  static constexpr bool kInt4 = kFormat == Format::int4;
  static constexpr bool kScaled = kFormat == Format::int8 || kInt4;  // scales lie beside the rows
  static constexpr int kBits = kPlain ? 16 : kInt4 ? 4 : 8;
  static constexpr int kRowBytes = kDims * kBits / 8;
  static constexpr int kGroups = kInt4 ? (kDims + kScaleDims - 1) / kScaleDims : 1;
  static constexpr int kScaleBytes = kInt4 ? 4 * kGroups : kScaled ? 2 : 0;  // per token, of K or V

  // A slot of the ring holds the K or the V of this many keys.
  static constexpr int kSlotKeys = std::clamp((16 << 10) / kRowBytes, kStepKeys, kChunk / 2);
  static constexpr int kSlotSteps = kSlotKeys / kStepKeys;

  // Tiles of 16 dims that a warp owns; int4 comes in pairs of tiles, 32 dims in a 16-byte unit.
  static constexpr int kDimTiles =
      kInt4 ? 2 * ((kDims + 127) / 128) : (kDims + 16 * kTeamWarps - 1) / (16 * kTeamWarps);
  // int4: weights carry the scale of a group of 64 dims; set i of a warp is of group 2 i + warp
  // / 2.
  static constexpr int kWeightSets = kInt4 ? kDimTiles / 2 : 1;
};

// Teams of kT tiles of 8 columns, and what each has of shared memory: barriers lie before the
// teams, the ring behind them.
template <class G, int kT>
struct Team {
  static constexpr int kAt = 1024;  // kDecodeTeamsAt
  static constexpr int kColumns = 8 * kT;
  static constexpr bool kWide = kT == 2;
  static constexpr bool kWgmma = kWide && PAGODA_SM90;

  // By registers: 255 with 5 warps, 168 with 9, 128 with 13; 96 with twice 9.
  static constexpr int kMaxTeams = G::kInt4 && G::kDims > 128            ? 1
                                   : kWide || G::kInt4 || G::kDims > 128 ? 2
                                                                         : 3;
  static constexpr int kMaxThreads = kMaxTeams * kTeamThreads + 32;
  // Blocks of a full launch, per multiprocessor, as measured (docs/kernels.md): of one team, of
  // more.
  static constexpr int kBlocks = G::kInt4 && G::kDims > 128 ? 1 : 2;
  static constexpr int kBlocksOfTeams = kWide ? 2 : 1;

  static constexpr int kQueryAt = 0;  // for wgmma: [columns][dims], as rows of K lie
  static constexpr int kWeightsAt = kWide ? kColumns * G::kDims * 2 : 0;
  static constexpr int kColumnsAt = kWeightsAt + G::kGroups * kColumns * kChunk * 2;
  static constexpr int kExchangeAt = kColumnsAt + 2 * kColumns * 32;
  static constexpr int kExchanges = 2 + (G::kInt4 ? G::kGroups : 0);
  // Where items may have several sections, the row so far; wgmma wants the next team's queries at a
  // multiple of 1024.
  static constexpr int kExchangeBytes = kExchanges * kTeamWarps * kColumns * 4;
  static constexpr int kRowAt = (kExchangeAt + kExchangeBytes + 1023) / 1024 * 1024;
  static constexpr int kRowBytes = kT * (4 + 4 * G::kDimTiles) * kTeamThreads * 4;
};

// The head at hand: the instance's own size, or a smaller one (80 and 96 in 128, 192 in 256).
template <class G, bool kOwn>
struct Head {
  const DecodeParams& p;

  __device__ __forceinline__ int dims() const { return kOwn ? G::kDims : p.head_dim; }
  __device__ __forceinline__ int row_bytes() const { return kOwn ? G::kRowBytes : p.row_bytes; }
  __device__ __forceinline__ int groups() const {
    return kOwn || G::kDims <= 128 ? G::kGroups : (p.head_dim + kScaleDims - 1) / kScaleDims;
  }
  __device__ __forceinline__ int scale_bytes() const {
    return G::kInt4 ? 4 * groups() : G::kScaleBytes;
  }
  // Of 16-byte unit `unit` of row `row`, from the start of a slot.
  __device__ __forceinline__ int offset(int row, int unit) const {
    if constexpr (kOwn) return unit_offset(G::kRowBytes, row, unit);
    int shift;  // volatile: or the compiler keeps offsets of all units in registers
    asm volatile("mov.b32 %0, %1;" : "=r"(shift) : "r"(p.atom_shift));
    return unit_offset(p.row_bytes, shift, row, unit);
  }
};

}  // namespace pagoda::cuda
