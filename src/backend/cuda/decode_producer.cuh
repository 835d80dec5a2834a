// The producer warp of the decode kernels: walks the block's items and brings the K, then the V, of
// each chunk of keys into a ring of slots, a slot 64 to 256 keys (16 KB of rows), by bulk copies of
// a cache block's rows each (below Hopper by 16-byte copies). It reads the block table one chunk
// ahead, keeps at most num_flying slots on their way (more would only crowd the memory system; the
// rest of the ring absorbs the consumers' jitter), and never reads a key outside [key_begin,
// key_end) of its item.
#pragma once

#include "backend/cuda/decode_geometry.cuh"
#include "backend/cuda/ptx.cuh"

namespace pagoda::cuda {

// A place in the ring, and the parity of the pass over it.
struct RingPlace {
  int slot = 0;
  uint32_t parity = 0;
  __device__ __forceinline__ void next(int num_slots) {
    if (++slot == num_slots) {
      slot = 0;
      parity ^= 1;
    }
  }
};

__device__ __forceinline__ uint32_t full_barrier(uint32_t smem, int slot) {
  return smem + 8 * slot;
}
__device__ __forceinline__ uint32_t empty_barrier(uint32_t smem, int slot) {
  return smem + 256 + 8 * slot;
}

constexpr int kMaxSlots = 16;
__device__ __forceinline__ void init_barriers(uint32_t smem, int slot, int warps) {
  mbarrier_init(full_barrier(smem, slot), PAGODA_SM90 ? 1 : 32);
  mbarrier_init(empty_barrier(smem, slot), warps);
  mbarrier_init_fence();
}

// What a role asks of the plan's header; consumers keep it in shared memory behind the barriers.
constexpr int kPlanSizeAt = 512;
struct PlanSize {
  int num_work;  // items x KV heads
  int chunks_per_part;
};
__device__ __forceinline__ PlanSize plan_size(const DecodeParams& p) {
  return {__ldg(&p.header->num_items) * p.kv_heads, __ldg(&p.header->chunks_per_part)};
}

__device__ __forceinline__ DecodeItem read_item(const DecodeParams& p, int index) {
  DecodeItem item;
  const int4* from = reinterpret_cast<const int4*>(p.items + index);
  reinterpret_cast<int4*>(&item)[0] = __ldg(from);
  reinterpret_cast<int4*>(&item)[1] = __ldg(from + 1);
  return item;
}

// Chunks of an item: absolute indices [begin, end).
struct ChunkRange {
  int begin, end;
};
__device__ __forceinline__ ChunkRange chunks_of(const DecodeItem& item, int chunks_per_part) {
  const int first = item.part * chunks_per_part;
  return {max(first, item.key_begin / kChunk),
          min(first + item.num_parts * chunks_per_part, (item.key_end + kChunk - 1) / kChunk)};
}

template <class G>
class Producer {
 public:
  __device__ __forceinline__ Producer(const DecodeParams& params, uint32_t smem)
      : p_(params), smem_(smem), lane_(threadIdx.x % 32), piece_(lane_ % 16) {
    const int per_slot = G::kSlotKeys / p_.piece;  // a power of two
    slot_shift_ = __ffs(per_slot) - 1;
    slot_of_piece_ = piece_ >> slot_shift_;
    slot_mask_ = (1u << per_slot) - 1;
    const int key = (piece_ & (per_slot - 1)) * p_.piece;
    offset_ = lane_ < 16 ? key * p_.row_bytes : G::kSlotKeys * p_.row_bytes + key * p_.scale_bytes;
    bytes_ = p_.piece * (lane_ < 16 ? p_.row_bytes : p_.scale_bytes);
    filling_.parity = 1;
  }

  __device__ __forceinline__ void run() {
    const PlanSize size = plan_size(p_);
    if (!p_.early) wait_for_previous();
    const int total = size.num_work, per_part = size.chunks_per_part;
    Cursor now{static_cast<int>(blockIdx.x) - static_cast<int>(gridDim.x), 0, 0, 0, {}};
    advance(now, total, per_part);
    Piece piece = locate(now, total);
    while (now.work < total) {
      Cursor next = now;
      advance(next, total, per_part);
      const Piece next_piece = locate(next, total);
      load_chunk(now, piece);
      now = next;
      piece = next_piece;
    }
    wait_for_previous();
  }

 private:
  struct Cursor {
    int work, kv_head, chunk, end;
    DecodeItem item;
  };
  // Lane i < 16: piece i of a chunk; lane i + 16: its scales. block < 0: not to be read.
  struct Piece {
    int block, row;
  };

  __device__ __forceinline__ void wait_for_previous() {
    if (!waited_) pdl_wait();
    waited_ = true;
  }

  // The next chunk that has keys, of this or a later item; work >= total: none.
  __device__ __forceinline__ void advance(Cursor& c, int total, int per_part) const {
    c.chunk++;
    while (c.chunk >= c.end) {
      c.work += gridDim.x;
      if (c.work >= total) return;
      const int index = c.work / p_.kv_heads;
      c.kv_head = c.work - index * p_.kv_heads;
      c.item = read_item(p_, index);
      const ChunkRange range = chunks_of(c.item, per_part);
      c.chunk = range.begin;
      c.end = range.end;
    }
  }

  __device__ __forceinline__ Piece locate(const Cursor& c, int total) const {
    const int key = c.chunk * kChunk + piece_ * p_.piece;
    Piece x = {-1, 0};
    if (c.work < total && piece_ * p_.piece < kChunk && key < c.item.key_end &&
        key + p_.piece > c.item.key_begin) {
      const int index = key / p_.block_size;
      x.row = key - index * p_.block_size;
      x.block = __ldg(p_.block_table + int64_t{c.item.table_row} * p_.max_blocks + index);
    }
    return x;
  }

  __device__ __forceinline__ void load_chunk(const Cursor& c, const Piece& piece) {
    const bool valid = piece.block >= 0;
    const uint32_t valid_lanes = __ballot_sync(~0u, valid) & 0xFFFF;
    const int key = c.chunk * kChunk + piece_ * p_.piece;
    if (!waited_ && __any_sync(~0u, valid && key + p_.piece > c.item.fresh)) wait_for_previous();
    const uint8_t* head = p_.kv + piece.block * p_.block_bytes + int64_t{c.kv_head} * p_.head_bytes;
#pragma unroll
    for (int is_v = 0; is_v < 2; is_v++) {
      const uint8_t* from = head + (lane_ < 16 ? is_v * p_.v_offset + piece.row * p_.row_bytes
                                               : (is_v ? p_.v_scales_offset : p_.k_scales_offset) +
                                                     piece.row * p_.scale_bytes);
#pragma unroll 1
      for (int i = 0; i < kChunk / G::kSlotKeys; i++) {
        const uint32_t bar = full_barrier(smem_, filling_.slot);
        mbarrier_wait(empty_barrier(smem_, filling_.slot), filling_.parity);
        const bool mine = valid && slot_of_piece_ == i;
        const int pieces = __popc(valid_lanes >> (i << slot_shift_) & slot_mask_);
        const uint32_t slot = smem_ + p_.ring_at + filling_.slot * p_.slot_bytes;
        copy_pieces(from, mine, pieces, slot, bar);
        filling_.next(p_.num_slots);
      }
    }
  }

#if PAGODA_SM90
  __device__ __forceinline__ void copy_pieces(
      const uint8_t* from, bool mine, int pieces, uint32_t slot, uint32_t bar) {
    if (num_flying_ == p_.num_flying) {
      mbarrier_wait(full_barrier(smem_, landing_.slot), landing_.parity);
      landing_.next(p_.num_slots);
    } else {
      num_flying_++;
    }
    if (lane_ == 0) mbarrier_expect(bar, pieces * p_.piece * (p_.row_bytes + p_.scale_bytes));
    if (mine && (G::kScaled || lane_ < 16)) bulk_copy(slot + offset_, from, bytes_, bar);
  }
#else
  __device__ __forceinline__ void copy_pieces(
      const uint8_t* from, bool mine, int, uint32_t slot, uint32_t bar) {
    for (uint32_t left = __ballot_sync(~0u, mine && (G::kScaled || lane_ < 16)); left;
         left &= left - 1) {
      const int lane = __ffs(left) - 1;
      const auto* src = reinterpret_cast<const uint8_t*>(
          __shfl_sync(~0u, reinterpret_cast<unsigned long long>(from), lane));
      copy_range(slot + __shfl_sync(~0u, offset_, lane), src, __shfl_sync(~0u, bytes_, lane));
    }
    copy16_arrive(bar);
  }
  __device__ __forceinline__ void copy_range(uint32_t dst, const uint8_t* src, int bytes) const {
    for (int at = lane_ * 16; at < bytes; at += 512) copy16(dst + at, src + at);
  }
#endif

  const DecodeParams& p_;
  uint32_t smem_;
  int lane_, piece_;
  int slot_of_piece_, slot_shift_;
  uint32_t slot_mask_;
  int offset_, bytes_;  // of the piece in its slot
  bool waited_ = false;
  RingPlace filling_;  // where the next keys go
  RingPlace landing_;  // the oldest slot that may not have landed
  int num_flying_ = 0;
};

}  // namespace pagoda::cuda
