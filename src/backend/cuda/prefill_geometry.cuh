// PrefillGeometry: all that a prefill kernel's template parameters decide: tile sizes, where things
// lie in shared memory, how wide a swizzled row atom is. K and V tiles lie as they do in the cache
// (kv_layout.h): groups of 8 rows, in a group atoms of 8 rows x kAtom bytes. Q lies as tensor-map
// boxes bring it: chunks of kAtom bytes, in a chunk row after row.
#pragma once

#include "backend/cuda/kv_layout.h"
#include "backend/cuda/mma.cuh"
#include "backend/cuda/prefill_params.h"

namespace pagoda::cuda {

template <bool kBf16_, int kDims_, int kKeys_, int kWarpgroups_, bool kTurns_>
struct PrefillGeometry {
  static constexpr bool kBf16 = kBf16_;
  static constexpr int kDims = kDims_;
  static constexpr int kKeys = kKeys_;              // of a key tile
  static constexpr int kWarpgroups = kWarpgroups_;  // consumers, 64 query rows each
  static constexpr bool kTurns = kTurns_;           // they take turns at the matrix units
  static constexpr int kRows = 64 * kWarpgroups;
  static constexpr int kThreads = 128 * (kWarpgroups + 1);
  static constexpr int kStages = 2;  // of K, and of V

  static constexpr int kRowBytes = 2 * kDims;
  static constexpr int kAtom = atom_bytes(kRowBytes);
  static constexpr int kChunks = kRowBytes / kAtom;   // atoms across a row
  static constexpr int kStepsPerChunk = kAtom / 32;   // k16 steps of Q Kᵀ
  static constexpr int kAtomBytes = 8 * kAtom;        // of 8 rows
  static constexpr int kGroupBytes = 8 * kRowBytes;   // of 8 rows, all atoms
  static constexpr int kQChunkBytes = kRows * kAtom;  // of all rows of Q
  static constexpr uint64_t kSwizzle = kAtom == 128 ? 1 : kAtom == 64 ? 2 : 3;  // of descriptors

  static constexpr int kQBytes = kRows * kRowBytes;
  static constexpr int kTileBytes = kKeys * kRowBytes;
  static constexpr int kRingBytes = 2 * kStages * kTileBytes;
  // Three: of the row tile that goes out, of the one at work, of the next.
  static constexpr int kQBuffers = 3 * kQBytes + kRingBytes <= 225 * 1024 ? 3 : 1;
  static constexpr int kSharedBytes = kQBuffers * kQBytes + kRingBytes + 1024;  // for alignment
  static_assert(kSharedBytes <= 227 * 1024);

  // bf16 weights may start at 2^-8 of what they may grow to; f16 has too few exponents for that.
  static constexpr float kHeadroom = kBf16 ? 8.f : 2.f;
};

constexpr int kPrefillSlots = 4;

#if PAGODA_SM90
// The stages of K, or of V: step i of the block's stream of key tiles is in stage i % 2. `full` is
// signalled by copies; `empty` by the readers of both blocks of a cluster (a block alone is its own
// peer), since a copy goes to both.
struct PrefillRing {
  uint32_t data, barriers;
  int offset;  // of K or V in a block of the cache

  __device__ __forceinline__ uint32_t full(int step) const { return barriers + 8 * (step & 1); }
  __device__ __forceinline__ uint32_t empty(int step) const {
    return barriers + 16 + 8 * (step & 1);
  }
  template <int kTileBytes>
  __device__ __forceinline__ uint32_t tile(int step) const {
    return data + (step & 1) * kTileBytes;
  }
  __device__ __forceinline__ static uint32_t parity(int step) { return step >> 1 & 1; }
};

// Addresses in shared memory, and the barriers: `full` are signalled by copies, `empty` by readers.
// Tile: a row tile, of which the block has one after the other.
template <class G>
struct PrefillShared {
  uint32_t q, barriers, mails;
  int rank;       // of the block in its cluster
  uint32_t peer;  // from an address of this block to the same one of its peer
  PrefillRing k, v;

  static constexpr int kBarriers = 18;

  __device__ __forceinline__ uint32_t q_buffer(int tile) const {
    return q + q_slot(tile) * G::kQBytes;
  }
  __device__ __forceinline__ static int q_slot(int tile) {
    return static_cast<uint32_t>(tile) % G::kQBuffers;
  }
  __device__ __forceinline__ static uint32_t q_parity(int tile) {
    return static_cast<uint32_t>(tile) / G::kQBuffers & 1;
  }
  __device__ __forceinline__ uint32_t q_full(int tile) const { return barriers + 8 * q_slot(tile); }
  __device__ __forceinline__ uint32_t q_empty(int tile) const {
    return barriers + 24 + 8 * q_slot(tile);
  }
  __device__ __forceinline__ uint32_t described(int tile) const {
    return barriers + 112 + 8 * (tile & (kPrefillSlots - 1));
  }
  // Where a peer finds what was drawn for it: {work, tile}. Eight, since rank 0 may be several
  // tiles ahead where tiles are short.
  __device__ __forceinline__ uint32_t mail(int tile) const { return mails + 8 * (tile & 7); }

  // Of a stage of K or V, by one thread of a warpgroup.
  __device__ __forceinline__ void release(uint32_t empty) const {
    mbarrier_arrive(empty);
    mbarrier_arrive_cluster(empty + peer);
  }

  __device__ __forceinline__
  PrefillShared(const PrefillParams& p, uint32_t memory, uint32_t barriers_at, uint32_t mails_at)
      : q(memory), barriers(barriers_at), mails(mails_at) {
    rank = p.ranks == 2 ? cluster_rank() : 0;
    peer = p.ranks == 2 ? peer_address(memory, rank ^ 1) - memory : 0;
    k = {memory + G::kQBuffers * G::kQBytes, barriers + 48, 0};
    v = {k.data + G::kStages * G::kTileBytes, barriers + 80, p.v_offset};
  }

  __device__ __forceinline__ void init_barriers() const {
    for (int i = 0; i < G::kQBuffers; i++) {
      mbarrier_init(q_full(i), 1);
      mbarrier_init(q_empty(i), 4 * G::kWarpgroups);  // by each warp
    }
    for (int i = 0; i < G::kStages; i++)
      for (const PrefillRing& ring : {k, v}) {
        mbarrier_init(ring.full(i), 1);
        mbarrier_init(ring.empty(i), 2 * G::kWarpgroups);
      }
    for (int i = 0; i < kPrefillSlots; i++) mbarrier_init(described(i), 1);
    for (int i = 0; i < 8; i++) store_shared8(mail(i), 0, 0);
    mbarrier_init_fence();
  }
};
#endif

// A tile as the block's warps read it, in shared memory: tile j in slot j & 3.
struct alignas(16) PrefillSlot {
  PrefillTile tile;
  int32_t key_begin, key_end;  // that a row of the tile may see; read together
  int32_t head_offset;         // bytes from a block of the cache to the tile's KV head
  int32_t table_offset;        // of the sequence's row of the block table
  int32_t head;
};

}  // namespace pagoda::cuda
