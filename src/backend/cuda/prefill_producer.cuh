// The producer warps of the prefill kernels: one draws row tiles by ticket, ahead, describes
// them in shared memory and loads their Q (a tensor-map box); one loads K, one V, by bulk copies,
// one for each run of keys in one block of the cache: lane i of a warp copies run i. The block
// table is read one key tile ahead, and all else is done before the wait for a free stage: a key
// tile's time is what a copy takes and little more. Of keys outside [first key that the
// tile sees, kv_len) only those are read that share a copy with others, of the same block then.
//
// Two blocks of a cluster work on two heads of one KV head, on the same row tile: each loads half
// of every key tile for both, so L2 is read half as often. Rank 0 draws for both.
#pragma once

#include <cstddef>

#include "backend/cuda/prefill_geometry.cuh"
#include "backend/cuda/ptx.cuh"

#if PAGODA_SM90
namespace pagoda::cuda {

template <class G>
class PrefillProducer {
 public:
  __device__ __forceinline__ PrefillProducer(const PrefillParams& params,
                                             const PrefillShared<G>& shared,
                                             PrefillSlot* slots)
      : p_(params), shared_(shared), slots_(slots), lane_(threadIdx.x % 32) {}

  // Warp 0: draws row tiles, describes them, loads their queries.
  __device__ __forceinline__ void run_queue() {
    describe(cluster_index(), slot(0));
    pdl_wait();
    for (int j = 0;; j++) {
      if (lane_ == 0) mbarrier_arrive(shared_.described(j));
      const bool is_last = slot(j).tile.tile_end == 0;
      mbarrier_wait(shared_.q_empty(j), shared_.q_parity(j) ^ 1);
      if (is_last) {
        if (lane_ == 0) mbarrier_arrive(shared_.q_full(j));
        return;
      }
      if (lane_ == 0) load_queries(j);
      // The next piece is drawn when there is room for it: a block that drew early would begin it
      // late, when others have nothing left to do. With one buffer that would be too late.
      if (G::kQBuffers > 1) mbarrier_wait(shared_.q_empty(j + 1), shared_.q_parity(j + 1) ^ 1);
      describe(shared_.rank == 0 ? draw(j + 1) : receive(j + 1), slot(j + 1));
    }
  }

  // Warps 1 and 2: load every row tile's K, or V, from the last key tile to the first.
  __device__ __forceinline__ void run_ring(const PrefillRing& ring) {
    pdl_wait();
    const int piece_bytes = p_.piece * G::kRowBytes;
    PrefillRing own = ring;
    own.data = kept(ring.data + lane_ * piece_bytes);
    own.barriers = kept(ring.barriers);
    int step = 0;
    Piece piece = {kUnknown, kUnread};
    for (int j = 0;; j++) {
      mbarrier_wait(shared_.described(j), described_parity(j));
      const PrefillSlot& now = slot(j);
      const int tile_begin = now.tile.tile_begin;
      int n = now.tile.tile_end - 1;
      if (n < 0) return;
      if (piece.block == kUnknown) piece = locate(now, n);
      for (; n >= tile_begin; n--) {
        const Copy copy = prepare(piece, now.head_offset + ring.offset);
        piece = n > tile_begin ? locate(now, n - 1) : locate_last(j + 1);
        const uint32_t to = kept(own.template tile<G::kTileBytes>(step)),
                       bar = kept(own.full(step));
        mbarrier_wait(own.empty(step), PrefillRing::parity(step) ^ 1);
        start(copy, to, bar);
        step++;
      }
    }
  }

 private:
  __device__ __forceinline__ PrefillSlot& slot(int j) const {
    return slots_[j & (kPrefillSlots - 1)];
  }
  __device__ __forceinline__ int num_tiles() const { return __ldg(&p_.header->num_tiles); }

  // Divided by 1 or 2.
  __device__ __forceinline__ int by_ranks(int x) const { return x >> (p_.ranks - 1); }
  __device__ __forceinline__ int cluster_index() const { return by_ranks(blockIdx.x); }
  __device__ __forceinline__ int num_units() const { return num_tiles() * by_ranks(p_.heads); }

  // The next piece of work, for tile j of the block and its peer; the last of all draws (each
  // cluster's first piece is its own, and each with work is refused once) leaves the ticket as it
  // was.
  __device__ __forceinline__ int draw(int j) const {
    const int total = num_units();
    int x = 0;
    if (lane_ == 0) {
      x = atomicAdd(p_.ticket, 1);
      if (x == total - 1) *p_.ticket = 0;
    }
    const int work = by_ranks(gridDim.x) + __shfl_sync(~0u, x, 0);
    if (p_.ranks == 2 && lane_ == 0) store_peer8(shared_.mail(j) + shared_.peer, work, j);
    if (work >= total) pdl_launch_next();
    return work;
  }
  __device__ __forceinline__ int receive(int j) const {
    int work, number;
    do load_volatile8(shared_.mail(j), work, number);
    while (number != j);
    if (work >= num_units()) pdl_launch_next();
    return work;
  }

  // Describes the tile in `to`: the plan's record and the head, or zeros if there is none.
  __device__ __forceinline__ void describe(int work, PrefillSlot& to) const {
    int word = 0;
    if (work < num_units()) {
      const bool are_few = num_tiles() <= p_.few_tiles;
      const int at_once = by_ranks(are_few ? p_.heads : p_.section_heads[__ldg(&p_.header->crowd)]);
      const int per_section = num_tiles() * at_once, section = work / per_section;
      const int rest = work - section * per_section, tile = rest / at_once;
      if (lane_ < 8) word = __ldg(reinterpret_cast<const int*>(p_.tiles + tile) + lane_);
      if (lane_ == kHeadWord)
        word = (section * at_once + rest - tile * at_once) * p_.ranks + shared_.rank;
    }
    __syncwarp();
    if (lane_ < 8 || lane_ == kHeadWord) reinterpret_cast<int*>(&to)[lane_] = word;
    __syncwarp();
    if (lane_ == 0) {
      to.key_begin = max(0, to.tile.limit - p_.window);
      to.key_end = to.tile.kv_len;
      to.head_offset = to.head / p_.group * p_.head_bytes;
      to.table_offset = to.tile.seq * p_.max_blocks;
    }
    __syncwarp();
  }

  // Lane i's piece of a key tile, p_.piece keys of one block: from which byte of a head's keys on,
  // or kUnread. The block's number may still be on its way.
  struct Piece {
    int block, at;
  };
  __device__ __forceinline__ Piece locate(const PrefillSlot& t, int n) const {
    const int begin = n * G::kKeys + lane_ * p_.piece;
    if (lane_ * p_.piece >= G::kKeys || begin >= t.key_end || begin + p_.piece <= t.key_begin)
      return {0, kUnread};
    const int index = static_cast<int>(__umulhi(begin, p_.block_inverse));
    return {__ldg(p_.block_table + (t.table_offset + index)),
            (begin - index * p_.block_size) * G::kRowBytes};
  }
  // Of a row tile that may not have been drawn yet.
  __device__ __forceinline__ Piece locate_last(int j) const {
    if (!__all_sync(~0u, mbarrier_test(shared_.described(j), described_parity(j))))
      return {kUnknown, kUnread};
    const int tile_end = slot(j).tile.tile_end;
    return tile_end > 0 ? locate(slot(j), tile_end - 1) : Piece{kUnknown, kUnread};
  }
  __device__ __forceinline__ static uint32_t described_parity(int j) {
    return j / kPrefillSlots & 1;
  }
  struct Copy {
    const uint8_t* from;
    bool is_mine;
    int tile_bytes;  // of all lanes
  };
  __device__ __forceinline__ Copy prepare(const Piece& piece, int offset) const {
    const bool is_read = piece.at != kUnread;
    return {p_.kv + piece.block * p_.block_bytes + (offset + piece.at),
            is_read && (p_.ranks == 1 || lane_ % 2 == shared_.rank),
            kept(__popc(__ballot_sync(~0u, is_read)) * p_.piece * G::kRowBytes)};
  }
  __device__ __forceinline__ void start(const Copy& copy, uint32_t to, uint32_t bar) const {
    if (lane_ == 0) mbarrier_expect(bar, copy.tile_bytes);
    __syncwarp();
    const int num_bytes = p_.piece * G::kRowBytes;
    if (!copy.is_mine) return;
    if (p_.ranks == 1)
      bulk_copy(to, copy.from, num_bytes, bar);
    else
      bulk_copy_both(to, copy.from, num_bytes, bar);
  }
  // Computed here and now, so not between a wait and what it is for.
  template <class T>
  __device__ __forceinline__ static T kept(T x) {
    asm volatile("" : "+r"(x));
    return x;
  }

  __device__ __forceinline__ void load_queries(int j) const {
    const PrefillSlot& t = slot(j);
    mbarrier_expect(shared_.q_full(j), G::kQBytes);
    for (int c = 0; c < G::kChunks; c++)
      box_copy(shared_.q_buffer(j) + c * G::kQChunkBytes,
               &p_.q,
               c * (G::kAtom / 2),
               t.tile.row,
               t.head,
               shared_.q_full(j));
  }

  static constexpr int kHeadWord = offsetof(PrefillSlot, head) / 4;
  static constexpr int kUnknown = -1, kUnread = -1;

  const PrefillParams& p_;
  const PrefillShared<G>& shared_;
  PrefillSlot* slots_;
  int lane_;
};

}  // namespace pagoda::cuda
#endif
