// Prefill attention by mma.sync (FlashAttention-2, Dao 2023), for sm_80 and up and every KV format.
// Computes: out[r, h] = softmax(q[r, h] · kᵀ * scale) · v over the keys that row r sees; causal or
//   full, windows, softcap, sinks; log-sum-exp on request.
// Inputs: q [T, H, D] bf16 or f16; KV blocks [N][KH][K | V | scales] as in kv_layout.h; a plan of
//   tiles (prefill_plan.h). Outputs: out [T, H, D] as q, log_sum_exp [T, H] f32.
// A block is persistent and takes (tile of query rows, head) by ticket, one drawn ahead; each warp
//   owns 16 x kRowTiles rows of the tile and loads its share of each key tile: K(n) is multiplied
//   while V(n) is on its way, then V(n) while K(n - 1) is.
// Bytes: q and out once, K and V once for each tile of rows and head (from L2 but once a section of
//   heads); FLOPs: 4 D for each row, head and key that it sees.
// Limits (checked by prefill_mma.cpp): D a multiple of 16 up to kDims; block size a multiple of 8.
// Reference: reference::attention; checked by check/prefill_check.cpp in float64.
#pragma once

#include "backend/cuda/prefill_mma_loader.cuh"
#include "backend/cuda/prefill_mma_softmax.cuh"

namespace pagoda::cuda {

template <class G>
class PrefillMma {
 public:
  __device__ __forceinline__ PrefillMma(const PrefillMmaParams& params,
                                        uint32_t shared,
                                        PrefillMmaSlot* slots,
                                        PrefillMmaRange* ranges)
      : p_(params), loader_(params, shared), slots_(slots), ranges_(ranges), shared_(shared) {}

  __device__ __forceinline__ void run() {
    fetch(blockIdx.x, 0);
    copy16_wait<0>();
    if (p_.head_dim != G::kDims) zero_padding();
    __syncthreads();
    if (slot(0).tile.tile_end == 0) return;
    loader_.locate(slot(0), slot(0).tile.tile_end - 1);
    pdl_wait();
    loader_.start(slot(0), slot(0).tile.tile_end - 1);
    start_queries(0);
    draw();
    for (bool more = true; more; tile_++) {
      fetch_drawn();
      enter();
      for (bool first = true;; n_--, first = false) {
        step(first);
        if (n_ == tile_begin_) break;
      }
      more = slot(tile_ + 1).tile.tile_end != 0;
      if (more) draw();
      finish_sums();
      store();
    }
  }

 private:
  using Softmax = PrefillMmaSoftmax<G>;

  // ---- work

  __device__ __forceinline__ static int lane() { return thread_index() % 32; }
  __device__ __forceinline__ static int warp() { return thread_index() / 32; }
  __device__ __forceinline__ static int first_row() { return warp() * G::kWarpRows; }
  __device__ __forceinline__ PrefillMmaSlot& slot(int j) const {
    return slots_[j % kPrefillMmaSlots];
  }
  __device__ __forceinline__ int num_tiles() const { return __ldg(&p_.header->num_tiles); }

  // The next piece of work, of which the first warp hears later; the last of all draws (each
  // block's first piece is its own, and each block with work is refused once) leaves the ticket as
  // it was.
  __device__ __forceinline__ void draw() {
    if (threadIdx.x == 0) drawn_ = atomicAdd(p_.ticket, 1);
  }
  __device__ __forceinline__ void fetch_drawn() {
    if (warp() != 0) return;
    const int x = __shfl_sync(~0u, drawn_, 0), total = num_tiles() * p_.heads;
    if (x == total - 1 && lane() == 0) *p_.ticket = 0;
    const int work = static_cast<int>(gridDim.x) + x;
    if (work >= total) pdl_launch_next();
    fetch(work, tile_ + 1);
  }
  // Describes the piece in slot j: the plan's record, which is on its way then, and the head; or
  // zeros if there is no such piece.
  __device__ __forceinline__ void fetch(int work, int j) const {
    if (warp() != 0) return;
    const int tiles = num_tiles(), at_once = p_.section_heads[0];
    const int per_section = tiles * at_once;
    const int section = work / per_section, rest = work - section * per_section;
    const int at = rest / at_once, head = section * at_once + rest - at * at_once;
    const bool is_there = work < tiles * p_.heads;
    PrefillMmaSlot& s = slot(j);
    if (lane() < 2)
      copy16_or_zero(smem_addr(&s) + lane() * 16,
                     reinterpret_cast<const uint8_t*>(p_.tiles + (is_there ? at : 0)) + lane() * 16,
                     is_there ? 16 : 0);
    if (lane() == 0) {
      s.head = head;
      s.kv_head = head / p_.group;
      s.head_offset = head / p_.group * p_.head_bytes;
    }
    copy16_commit();
  }

  // Row tile tile_ becomes the one at work.
  __device__ __forceinline__ void enter() {
    const PrefillTile& t = slot(tile_).tile;
    tile_begin_ = t.tile_begin;
    n_ = t.tile_end - 1;
    const int limit = t.limit + first_row(), last = min(G::kWarpRows, t.num_rows - first_row()) - 1;
    PrefillMmaRange range;
    range.begin = max(0, limit - p_.window) / G::kKeys;
    range.end = last < 0 ? 0 : key_tiles(min(t.kv_len, limit + last));
    range.mask_from = max(0, min(t.kv_len, limit)) / G::kKeys;
    range.mask_below = key_tiles(limit + G::kWarpRows - 1 - p_.window);
    if (lane() == 0) ranges_[warp()] = range;
#pragma unroll
    for (int t16 = 0; t16 < G::kRowTiles; t16++) {
      softmax_[t16].start_rows();
#pragma unroll
      for (int i = 0; i < G::kDims / 8; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) o_[t16][i][j] = 0;
    }
  }
  __device__ __forceinline__ static int key_tiles(int keys) {
    return (max(0, keys) + G::kKeys - 1) / G::kKeys;
  }

  // Key tile n_. Of 16-bit KV: K(n) is there, V(n) is asked for once everybody is done with
  // V(n + 1), and K(n - 1) once everybody is done with K(n).
  __device__ __forceinline__ void step(bool first) {
    copy16_wait<0>();
    if (first) finish_queries();
    __syncthreads();
    if (loader_.is_plain()) {
      loader_.start_values(slot(tile_), n_);
      locate_next_keys();
    } else {
      convert();
    }
    const PrefillMmaRange range = ranges_[warp()];
    if (n_ < range.begin || n_ >= range.end) return finish_keys();
    float s[G::kRowTiles][G::kKeys / 8][4];
    multiply_q_k(s);
    finish_keys();
    treat_scores(s);
    weigh_and_multiply(s);
  }
  // Of quantised KV the codes of K(n) and V(n) are there, and everybody is done with the tiles of
  // n + 1: codes become tiles, and those of n - 1 are asked for.
  __device__ __forceinline__ void convert() {
    locate_next_keys();
    loader_.convert(slot(tile_), n_);
    __syncwarp();
    start_next_keys();
    __syncthreads();
  }
  // This warp is done with K(n). Warps with nothing to see reach this barrier from another call
  // site than the rest: bar.sync pairs them by its number, where __syncthreads() must not be split.
  __device__ __forceinline__ void finish_keys() {
    if (loader_.is_plain()) {
      copy16_wait<0>();
      named_barrier(kKeysBarrier, G::kThreads);
      start_next_keys();
    }
    if (n_ == tile_begin_ && slot(tile_ + 1).tile.tile_end != 0) start_queries(tile_ + 1);
  }
  // Key tile n_ - 1, or the last one of the next row tile; -1: there is none.
  __device__ __forceinline__ const PrefillMmaSlot& next_slot() const {
    return slot(n_ != tile_begin_ ? tile_ : tile_ + 1);
  }
  __device__ __forceinline__ int next_n() const {
    return n_ != tile_begin_ ? n_ - 1 : next_slot().tile.tile_end - 1;
  }
  __device__ __forceinline__ void locate_next_keys() {
    if (next_n() >= 0) loader_.locate(next_slot(), next_n());
  }
  __device__ __forceinline__ void start_next_keys() {
    if (next_n() >= 0) loader_.start(next_slot(), next_n());
  }

  // ---- queries: a warp's own rows of shared memory

  __device__ __forceinline__ void zero_padding() const {
    for (int at = threadIdx.x * 16; at < G::kCodesAt; at += G::kThreads * 16)
      store_shared_zero16(shared_ + at);
  }
  __device__ __forceinline__ void start_queries(int j) const {
    const PrefillTile& t = slot(j).tile;
    const int num_rows = t.num_rows - first_row();
    const uint8_t* from =
        p_.queries + (t.row + first_row()) * p_.q_row_bytes + slot(j).head * p_.head_dim * 2;
    const uint32_t to = shared_ + first_row() * G::kRowBytes;
#pragma unroll 4
    for (int i = 0; i < G::kWarpRows * G::kUnits / 32; i++) {
      const int flat = i * 32 + lane(), row = flat / G::kUnits, unit = flat % G::kUnits;
      if (unit >= p_.head_dim / 8) continue;
      const bool is_there = row < num_rows;
      copy16_or_zero(to + unit_offset(G::kRowBytes, row, unit),
                     from + (is_there ? row * p_.q_row_bytes + unit * 16 : 0),
                     is_there ? 16 : 0);
    }
    copy16_commit();
  }
  // They have landed for this warp; over quantised KV they become f16 if they are not.
  __device__ __forceinline__ void finish_queries() const {
    copy16_wait<0>();
    if (!G::kBf16 && p_.q_is_bf16) {
      __syncwarp();
#pragma unroll 2
      for (int i = 0; i < G::kWarpRows * G::kUnits / 32; i++) {
        const uint32_t at = shared_ + first_row() * G::kRowBytes + i * 512 + lane() * 16;
        const uint4 x = load_shared16(at);
        store_shared16(at, {to_f16(x.x), to_f16(x.y), to_f16(x.z), to_f16(x.w)});
      }
    }
    __syncwarp();
  }
  __device__ __forceinline__ static uint32_t to_f16(uint32_t two_bf16) {
    return pack16<false>(__uint_as_float(two_bf16 << 16), __uint_as_float(two_bf16 & 0xFFFF0000u));
  }

  // ---- matrix products

  // Where this lane's row of the first four 8 x 8 matrices begins, in rows of 16-bit numbers from
  // `from` on: the second of them is 8 rows down, the third 8 numbers to the right; or (kRight) the
  // other way round. An XOR with 32 c moves 16 c numbers to the right.
  template <bool kRight>
  __device__ __forceinline__ uint32_t matrices(int from) const {
    const int matrix = lane() / 8, row = lane() % 8;
    const int down = kRight ? matrix / 2 : matrix % 2, right = kRight ? matrix % 2 : matrix / 2;
    return shared_ + from + down * G::kGroupBytes + row * 128 + (right ^ row) * 16;
  }

  __device__ __forceinline__ void multiply_q_k(float (&s)[G::kRowTiles][G::kKeys / 8][4]) const {
#pragma unroll
    for (int t = 0; t < G::kRowTiles; t++)
#pragma unroll
      for (int j = 0; j < G::kKeys / 8; j++)
#pragma unroll
        for (int i = 0; i < 4; i++) s[t][j][i] = 0;
    const uint32_t q = matrices<false>(first_row() * G::kRowBytes), keys = matrices<true>(G::kKAt);
#pragma unroll
    for (int k = 0; k < G::kDims / 16; k++) {
      const int swizzle = 2 * k % 8 * 16, chunk = 2 * k / 8 * 1024;
      uint32_t a[G::kRowTiles][4];
#pragma unroll
      for (int t = 0; t < G::kRowTiles; t++)
        ldmatrix_x4(a[t], (q ^ swizzle) + chunk + t * 2 * G::kGroupBytes);
#pragma unroll
      for (int j = 0; j < G::kKeys / 16; j++) {
        uint32_t b[4];
        ldmatrix_x4(b, (keys ^ swizzle) + chunk + j * 2 * G::kGroupBytes);
#pragma unroll
        for (int t = 0; t < G::kRowTiles; t++) {
          mma<G::kBf16>(s[t][2 * j], a[t], b[0], b[1]);
          mma<G::kBf16>(s[t][2 * j + 1], a[t], b[2], b[3]);
        }
      }
    }
  }

  __device__ __forceinline__ void weigh_and_multiply(
      const float (&s)[G::kRowTiles][G::kKeys / 8][4]) {
    uint32_t weights[G::kRowTiles][G::kKeys / 16][4];
    const float scale = p_.cap_scale != 0.f ? p_.score_scale : p_.score_scale * k_scale();
#pragma unroll
    for (int t = 0; t < G::kRowTiles; t++)
      if (softmax_[t].weigh(s[t], scale, n_ == ranges_[warp()].end - 1, weights[t])) {
#pragma unroll
        for (int i = 0; i < G::kDims / 8; i++)
#pragma unroll
          for (int j = 0; j < 4; j++) o_[t][i][j] *= softmax_[t].correction[j / 2];
      }
    const uint32_t values = matrices<false>(G::kVAt);
#pragma unroll
    for (int k = 0; k < G::kKeys / 16; k++)
#pragma unroll
      for (int d = 0; d < G::kDims / 16; d++) {
        uint32_t b[4];
        ldmatrix_x4_trans(b,
                          (values ^ (2 * d % 8 * 16)) + 2 * d / 8 * 1024 + k * 2 * G::kGroupBytes);
#pragma unroll
        for (int t = 0; t < G::kRowTiles; t++) {
          mma<G::kBf16>(o_[t][2 * d], weights[t][k], b[0], b[1]);
          mma<G::kBf16>(o_[t][2 * d + 1], weights[t][k], b[2], b[3]);
        }
      }
  }

  // ---- scales and masks

  __device__ __forceinline__ float k_scale() const {
    if (G::kBf16 || p_.k_scales == nullptr) return 1.f;
    return __ldg(p_.k_scales + slot(tile_).kv_head);
  }

  // What few steps need: caps scores, takes out those that no row may see. Only key tiles at an end
  // of what this warp's rows see have anything masked.
  __device__ __forceinline__ void treat_scores(float (&s)[G::kRowTiles][G::kKeys / 8][4]) const {
    if (p_.cap_scale != 0.f) cap(s);
    const PrefillMmaRange range = ranges_[warp()];
    if (n_ >= range.mask_from || n_ < range.mask_below) mask(s);
  }
  __device__ __forceinline__ void cap(float (&s)[G::kRowTiles][G::kKeys / 8][4]) const {
    const float scale = p_.cap_scale * k_scale();
#pragma unroll
    for (int t = 0; t < G::kRowTiles; t++)
#pragma unroll
      for (int j = 0; j < G::kKeys / 8; j++)
#pragma unroll
        for (int i = 0; i < 4; i++)  // tanh(x) = 1 - 2 / (e^2x + 1)
          s[t][j][i] = 1.f - 2.f * rcp_approx(exp2_approx(s[t][j][i] * scale) + 1.f);
  }
  __device__ __forceinline__ void mask(float (&s)[G::kRowTiles][G::kKeys / 8][4]) const {
    const PrefillTile& now = slot(tile_).tile;
    const int limit = now.limit + first_row() + lane() / 4;
    const int column = n_ * G::kKeys + lane() % 4 * 2;
#pragma unroll
    for (int t = 0; t < G::kRowTiles; t++)
#pragma unroll
      for (int half = 0; half < 2; half++) {
        const int row_limit = limit + t * 16 + half * 8;
        const int end = min(now.kv_len, row_limit) - column;
        const int begin = row_limit - p_.window - column;
#pragma unroll
        for (int j = 0; j < G::kKeys / 8; j++)
#pragma unroll
          for (int i = 0; i < 2; i++)
            if (j * 8 + i >= end || j * 8 + i < begin) s[t][j][half * 2 + i] = -INFINITY;
      }
  }

  // ---- results

  // The sums of row tile tile_ are complete: O becomes the answer, log-sum-exp goes out.
  __device__ __forceinline__ void finish_sums() {
    const PrefillTile& t = slot(tile_).tile;
    const int head = slot(tile_).head;
    constexpr float kLog2E = 1.4426950408889634f, kLn2 = 0.6931471805599453f;
    const float sink = p_.sinks != nullptr ? __ldg(p_.sinks + head) : -INFINITY;
    const float v_scale = p_.v_scales != nullptr ? __ldg(p_.v_scales + slot(tile_).kv_head) : 1.f;
#pragma unroll
    for (int t16 = 0; t16 < G::kRowTiles; t16++)
#pragma unroll
      for (int half = 0; half < 2; half++) {
        const Softmax& softmax = softmax_[t16];
        float total = Softmax::quad_sum(softmax.sum[half]);
        const bool has_keys = total > 0;
        if (has_keys) total += exp2_approx(sink * kLog2E - softmax.m[half]);
        const int r = first_row() + t16 * 16 + half * 8 + lane() / 4;
        if (p_.log_sum_exp != nullptr && lane() % 4 == 0 && r < t.num_rows) {
          float lse = (softmax.m[half] + log2_approx(total)) * kLn2;
          if (isinf(total)) lse = sink;
          p_.log_sum_exp[(t.row + r) * p_.sum_row_floats + head] = has_keys ? lse : -INFINITY;
        }
        const float inverse = has_keys ? rcp_approx(total) * v_scale : 0.f;
#pragma unroll
        for (int i = 0; i < G::kDims / 8; i++) {
          o_[t16][i][half * 2] *= inverse;
          o_[t16][i][half * 2 + 1] *= inverse;
        }
      }
  }

  // The four lanes of a row exchange 4 x 4 words, so that each has 16 bytes in a row.
  __device__ __forceinline__ void store() const {
    const PrefillTile& t = slot(tile_).tile;
    const int c = lane() % 4, num_rows = t.num_rows - first_row();
    uint8_t* out = p_.out + (t.row + first_row()) * p_.out_row_bytes +
                   slot(tile_).head * p_.head_dim * 2 + c * 16;
    const bool is_bf16 = G::kBf16 || p_.q_is_bf16;
#pragma unroll
    for (int t16 = 0; t16 < G::kRowTiles; t16++)
#pragma unroll
      for (int half = 0; half < 2; half++) {
        const int r = t16 * 16 + half * 8 + lane() / 4;
        uint8_t* row = out + r * p_.out_row_bytes;
#pragma unroll
        for (int i = 0; i < G::kDims / 32; i++) {
          uint32_t w[4];
#pragma unroll
          for (int g = 0; g < 4; g++) {
            const float x = o_[t16][i * 4 + g][half * 2], y = o_[t16][i * 4 + g][half * 2 + 1];
            w[g] = is_bf16 ? pack16<true>(x, y) : pack16<false>(x, y);
          }
          exchange(w[0], w[1], c & 1, 1);
          exchange(w[2], w[3], c & 1, 1);
          exchange(w[0], w[2], c & 2, 2);
          exchange(w[1], w[3], c & 2, 2);
          if (r < num_rows && i * 4 + c < p_.head_dim / 8)
            *reinterpret_cast<uint4*>(row + i * 64) = {w[0], w[1], w[2], w[3]};
        }
      }
  }
  // One step of a transposition: the lower lane's y for the upper lane's x.
  __device__ __forceinline__ static void exchange(uint32_t& x, uint32_t& y, int upper, int lanes) {
    const uint32_t other = __shfl_xor_sync(~0u, upper ? x : y, lanes);
    x = upper ? other : x;
    y = upper ? y : other;
  }

  static constexpr int kKeysBarrier = 1;  // 0 is that of __syncthreads()

  const PrefillMmaParams& p_;
  PrefillMmaLoader<G> loader_;
  PrefillMmaSlot* slots_;
  PrefillMmaRange* ranges_;
  const uint32_t shared_;

  float o_[G::kRowTiles][G::kDims / 8][4];
  Softmax softmax_[G::kRowTiles];

  int tile_ = 0;  // row tiles so far
  int n_ = 0, tile_begin_ = 0;
  int drawn_ = 0;  // of the first thread
};

template <class G>
__global__ void __launch_bounds__(G::kThreads, PAGODA_SM90 ? G::kBlocks : 1)
    prefill_mma_kernel(const __grid_constant__ PrefillMmaParams p) {
  extern __shared__ __align__(128) uint8_t prefill_mma_memory[];
  __shared__ PrefillMmaSlot slots[kPrefillMmaSlots];
  __shared__ PrefillMmaRange ranges[G::kWarps];
  PrefillMma<G>(p, smem_addr(prefill_mma_memory), slots, ranges).run();
}

}  // namespace pagoda::cuda
