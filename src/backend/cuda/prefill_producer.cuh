// The two producer warps of the prefill kernels. The K warp draws tiles by ticket, one ahead,
// writes their descriptions to shared memory, and loads Q (a tensor-map box) and K; the V warp
// follows the descriptions and loads V. K and V come by bulk copies, one for each run of keys in
// one block of the cache: lane i of a warp copies run i. The block table is read one key tile
// ahead. Keys outside [first key that the tile sees, kv_len) are not read, but for the rest of
// their 8 rows.
#pragma once

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

  __device__ __forceinline__ void load_queries_and_keys() {
    int step = 0;
    describe(blockIdx.x, slot(0));
    int block = locate_last(slot(0));
    pdl_wait();
    for (int j = 0;; j++) {
      PrefillSlot& now = slot(j);
      const int tile_begin = now.tile.tile_begin;
      int n = now.tile.tile_end - 1;
      if (G::kQBuffers == 2 || n < 0) load_queries(j);
      if (n < 0) return;
      bool first = true;
      for (; n >= tile_begin; n--) {
        const int next_block = n > tile_begin ? locate(now, n - 1) : 0;
        const Copy copy = prepare(now, n, block, 0);
        mbarrier_wait(shared_.k_empty(step), shared_.parity(step) ^ 1);
        start(copy, shared_.k_tile(step), shared_.k_full(step));
        step++;
        block = next_block;
        if (first) {  // under the tile's first loads
          if (G::kQBuffers == 1) load_queries(j);
          describe(draw(), slot(j + 1));
          first = false;
        }
      }
      block = locate_last(slot(j + 1));
    }
  }

  __device__ __forceinline__ void load_values() {
    int step = 0;
    for (int j = 0;; j++) {
      mbarrier_wait(shared_.q_full(j), shared_.q_parity(j));
      const PrefillSlot& now = slot(j);
      const int tile_begin = now.tile.tile_begin;
      int n = now.tile.tile_end - 1;
      if (n < 0) return;
      int block = locate(now, n);
      if (lane_ == 0) mbarrier_arrive(shared_.q_empty(j));
      for (; n >= tile_begin; n--) {
        const int next_block = n > tile_begin ? locate(now, n - 1) : 0;
        const Copy copy = prepare(now, n, block, p_.v_offset);
        mbarrier_wait(shared_.v_empty(step), shared_.parity(step) ^ 1);
        start(copy, shared_.v_tile(step), shared_.v_full(step));
        step++;
        block = next_block;
      }
    }
  }

 private:
  __device__ __forceinline__ PrefillSlot& slot(int j) const {
    return slots_[j & (kPrefillSlots - 1)];
  }
  __device__ __forceinline__ int num_tiles() const { return __ldg(&p_.header->num_tiles); }

  // The next piece of work; the last of all draws (each block's first piece is its own, and each
  // block with work is refused once) leaves the ticket as it was.
  __device__ __forceinline__ int draw() const {
    const int total = num_tiles() * p_.heads;
    int x = 0;
    if (lane_ == 0) {
      x = atomicAdd(p_.ticket, 1);
      if (x == total - 1) *p_.ticket = 0;
    }
    const int work = static_cast<int>(gridDim.x) + __shfl_sync(~0u, x, 0);
    if (work >= total) pdl_launch_next();
    return work;
  }

  // Describes the tile in `to`: the plan's record and the head, or zeros if there is none.
  __device__ __forceinline__ void describe(int work, PrefillSlot& to) const {
    int word = 0;
    if (work < num_tiles() * p_.heads) {
      const int per_section = num_tiles() * p_.section_heads, section = work / per_section;
      const int rest = work - section * per_section, tile = rest / p_.section_heads;
      if (lane_ < 7) word = __ldg(reinterpret_cast<const int*>(p_.tiles + tile) + lane_);
      if (lane_ == 7) word = section * p_.section_heads + rest - tile * p_.section_heads;
    }
    __syncwarp();
    if (lane_ < 8) reinterpret_cast<int*>(&to)[lane_] = word;
    __syncwarp();
    if (lane_ == 0) {
      to.key_begin = max(0, to.tile.limit - p_.window);
      to.key_end = to.tile.kv_len;
      to.head_offset = to.tile.head / p_.group * p_.head_bytes;
      to.table_offset = to.tile.seq * p_.max_blocks;
    }
    __syncwarp();
  }

  // Lane i: its piece of key tile n, p_.piece keys of one block; `begin` is its first key.
  struct Piece {
    int begin, block_index, row;
    bool is_read;
  };
  __device__ __forceinline__ Piece piece_of(const PrefillSlot& t, int n) const {
    Piece x;
    x.begin = n * G::kKeys + lane_ * p_.piece;
    x.block_index = static_cast<int>(__umulhi(x.begin, p_.block_inverse));
    x.row = x.begin - x.block_index * p_.block_size;
    x.is_read =
        lane_ * p_.piece < G::kKeys && x.begin < t.key_end && x.begin + p_.piece > t.key_begin;
    return x;
  }
  __device__ __forceinline__ int locate(const PrefillSlot& t, int n) const {
    const Piece x = piece_of(t, n);
    return x.is_read ? __ldg(p_.block_table + (t.table_offset + x.block_index)) : 0;
  }
  __device__ __forceinline__ int locate_last(const PrefillSlot& t) const {
    return t.tile.tile_end > 0 ? locate(t, t.tile.tile_end - 1) : 0;
  }
  struct Copy {
    const uint8_t* from;
    bool is_read;
    int tile_bytes;  // of all lanes
  };
  __device__ __forceinline__ Copy prepare(const PrefillSlot& t,
                                          int n,
                                          int block,
                                          int offset) const {
    const Piece x = piece_of(t, n);
    return {p_.kv + block * p_.block_bytes + (t.head_offset + offset + x.row * G::kRowBytes),
            x.is_read,
            __popc(__ballot_sync(~0u, x.is_read)) * p_.piece * G::kRowBytes};
  }
  __device__ __forceinline__ void start(const Copy& copy, uint32_t to, uint32_t bar) const {
    if (lane_ == 0) mbarrier_expect(bar, copy.tile_bytes);
    __syncwarp();
    const int num_bytes = p_.piece * G::kRowBytes;
    if (copy.is_read) bulk_copy(to + lane_ * num_bytes, copy.from, num_bytes, bar);
  }

  __device__ __forceinline__ void load_queries(int j) const {
    mbarrier_wait(shared_.q_empty(j), shared_.q_parity(j) ^ 1);
    if (lane_ != 0) return;
    const PrefillTile& t = slot(j).tile;
    if (t.tile_end == 0) {
      mbarrier_arrive(shared_.q_full(j));
      return;
    }
    mbarrier_expect(shared_.q_full(j), G::kQBytes);
    for (int c = 0; c < G::kChunks; c++)
      box_copy(shared_.q_buffer(j) + c * G::kQChunkBytes,
               &p_.q,
               c * (G::kAtom / 2),
               t.row,
               t.head,
               shared_.q_full(j));
  }

  const PrefillParams& p_;
  const PrefillShared<G>& shared_;
  PrefillSlot* slots_;
  int lane_;
};

}  // namespace pagoda::cuda
#endif
