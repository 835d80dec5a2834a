// Prefill attention for Hopper (FlashAttention, Dao 2023; warp-specialised as Shah et al. 2024).
// Computes: out[r, h] = softmax(q[r, h] · kᵀ * scale) · v over the keys that row r sees; causal or
//   full, windows, softcap, sinks; log-sum-exp on request.
// Inputs: q [T, H, D] bf16 or f16 by tensor map; KV blocks [N][KH][K | V] as in kv_layout.h; a plan
//   of tiles (prefill_plan.h). Outputs: out [T, H, D] as q, log_sum_exp [T, H] f32; of a span of a
//   row's keys (prefill_params.h) part_out [parts][H][D] and part_sum [parts][H] f32 instead.
// A block is persistent, one to a multiprocessor, and takes (tile of query rows, head) by ticket:
//   warp 0 loads Q, warp 1 K, warp 2 V, each consumer warpgroup owns 64 rows of the tile.
// Bytes: q and out once, K and V once for each tile of rows and head (from L2 but once a section of
//   heads); FLOPs: 4 D for each row, head and key that it sees.
// Limits (checked by prefill.cpp): sm_90a; D one of 64, 80, 96, 128, 192, 256; block size a
//   multiple of 8; H a multiple of KH.
// Reference: reference::attention; checked by check/prefill_check.cpp in float64.
#pragma once

#include "backend/cuda/prefill_producer.cuh"
#include "backend/cuda/prefill_softmax.cuh"
#include "backend/cuda/wgmma.cuh"

#if PAGODA_SM90
namespace pagoda::cuda {

// A consumer warpgroup. Its key tiles, of all its row tiles one after the other, are one stream of
// steps: the matrix units multiply step i's Q Kᵀ, then step i - 1's P V, and under P V (and the
// other warpgroup's products) the exponentials of step i are done.
template <class G>
class PrefillConsumer {
 public:
  __device__ __forceinline__ PrefillConsumer(const PrefillParams& params,
                                             const PrefillShared<G>& shared,
                                             const PrefillSlot* slots,
                                             int warpgroup)
      : p_(params),
        shared_(shared),
        slots_(slots),
        me_(warpgroup),
        leads_(threadIdx.x % 128 == 0) {}

  __device__ __forceinline__ void run() {
    if (G::kTurns && me_ == G::kWarpgroups - 1) named_barrier_arrive(1, 256);
    mbarrier_wait(shared_.q_full(0), 0);
    if (!enter()) return;
    softmax_.start_rows();
    clear();
    mbarrier_wait(shared_.k.full(0), 0);
    begin_turn();
    multiply_q_k<0>();
    end_turn();
    wgmma_wait<0>();
    release_k<0>();
    treat_scores();
    softmax_.template weigh<Pace::compilers>(s_, p_.score_scale, true, weights_a_, factor_);
    await_next_k<0>();
    // All twice: stages become constants, and weights in use and in the making registers.
    while (true) {
      if (!advance<1>(weights_a_, weights_b_)) return finish<1>(weights_a_, weights_b_);
      bool v_is_there = false;
      for (int pairs = plain_steps() / 2; pairs > 0; pairs--) {
        plain_step<0>(weights_b_, weights_a_, v_is_there);
        plain_step<1>(weights_a_, weights_b_, v_is_there);
      }
      if (!advance<0>(weights_b_, weights_a_)) return finish<0>(weights_b_, weights_a_);
    }
  }

 private:
  using Weights = typename PrefillSoftmax<G>::Weights;

  // Step i has K in stage i % 2, which is kStage, and V of step i - 1 in the other. parity_ is that
  // of step i - 1.
  template <int kStage>
  __device__ __forceinline__ uint32_t k_parity() const {
    return kStage == 0 ? parity_ ^ 1 : parity_;
  }

  // To the next key tile, wherever it is; false if there is none.
  template <int kStage>
  __device__ __forceinline__ bool advance(Weights& now, Weights& next) {
    const bool boundary = n_ == tile_begin_;
    if (boundary) {
      ++tile_;
      mbarrier_wait(shared_.q_full(tile_), shared_.q_parity(tile_));
      if (!enter()) return false;
      mbarrier_wait(shared_.k.full(kStage), k_parity<kStage>());
    } else {
      --n_;
    }
    step<kStage>(now, next, boundary);
    return true;
  }

  // S takes key tile i. Behind that product O is brought up to date (the values of tile i - 2 are
  // in it by then) and takes the weights times V of tile i - 1; under both, new weights are made.
  // The matrix units always have a product waiting.
  template <int kStage>
  __device__ __forceinline__ void step(Weights& now, Weights& next, bool boundary) {
    begin_turn();
    multiply_q_k<kStage>();
    wgmma_wait<1>();
    if (leads_ && due_ != Due::start) shared_.release(shared_.v.empty(kStage));
    settle(next);
    await_values<1 - kStage>();
    multiply_p_v<1 - kStage>(now);
    if (due_ == Due::store) store_rest(next);
    if (boundary) finish_sums(tile_ - 1);
    wgmma_wait<1>();
    end_turn();
    release_k<kStage>();
    treat_scores();
    const bool rises =
        softmax_.template weigh<Pace::compilers>(s_, p_.score_scale, boundary, next, factor_);
    due_ = boundary ? Due::store : rises ? Due::rescale : Due::nothing;
    if (boundary) out_tile_ = tile_ - 1;
    parity_ = k_parity<kStage>();
    await_next_k<kStage>();
  }

  // How many of the next steps are of this row tile and within what all of this warpgroup's rows
  // see: they have products and weights to make and nothing else. None where they are few. The same
  // for all warps, so it must not ask whether O is due to be rescaled.
  __device__ __forceinline__ int plain_steps() const {
    const int steps = n_ - max(tile_begin_, mask_below_);
    if (steps < kLeastPlainSteps || n_ > mask_from_ || valid_ != kAllValid) return 0;
    return due_ == Due::store ? 0 : steps;
  }
  // One of them: `step`, where O is not due to be stored, all of V is valid and K is there, in a
  // third of the code, so that a loop of two finds its instructions at hand. What the next step
  // will wait for is asked about before the exponentials, so that the answers are not waited for.
  template <int kStage>
  __device__ __forceinline__ void plain_step(Weights& now, Weights& next, bool& v_is_there) {
    n_--;
    begin_turn();
    multiply_q_k<kStage>();
    wgmma_wait<1>();
    if (leads_) shared_.release(shared_.v.empty(kStage));
    if (__builtin_expect(due_ != Due::nothing, 0)) rescale();
    if (!v_is_there) mbarrier_wait(shared_.v.full(1 - kStage), parity_);
    multiply_p_v<1 - kStage>(now);
    wgmma_wait<1>();
    end_turn();
    release_k<kStage>();
    parity_ = k_parity<kStage>();
    const uint32_t next_k = shared_.k.full(1 - kStage), next_parity = k_parity<1 - kStage>();
    const bool k_is_there = mbarrier_test(next_k, next_parity);
    v_is_there = mbarrier_test(shared_.v.full(kStage), parity_);
    const bool rises =
        softmax_.template weigh<Pace::even>(s_, p_.score_scale, false, next, factor_);
    due_ = rises ? Due::rescale : Due::nothing;
    if (!k_is_there && n_ != tile_begin_) mbarrier_wait(next_k, next_parity);
  }

  // What the last key tile left to do with O before it takes that tile's values: at a boundary the
  // tile before was a row tile's last, and O goes out and starts anew. `spare` is where weights are
  // yet to be made: it holds what goes out until the products are under way.
  __device__ __forceinline__ void settle(Weights& spare) {
    if (due_ == Due::store) {
      store(spare);
      clear();
    } else if (due_ == Due::rescale) {
      rescale();
    }
  }
  __device__ __forceinline__ void rescale() {
#pragma unroll
    for (int i = 0; i < G::kDims / 2; i++) o_[i] *= factor_[i >> 1 & 1];
  }

  template <int kStage>
  __device__ __forceinline__ void finish(Weights& weights, Weights& spare) {
    wgmma_wait<0>();
    settle(spare);
    if (due_ == Due::store) store_rest(spare);
    await_values<1 - kStage>();
    multiply_p_v<1 - kStage>(weights);
    finish_sums(tile_ - 1);
    wgmma_wait<0>();
    out_tile_ = tile_ - 1;
    store(spare);
    store_rest(spare);
  }

  template <int kStage>
  __device__ __forceinline__ void release_k() const {
    if (leads_) shared_.release(shared_.k.empty(kStage));
    // Each warp for itself: the one that leads may be here while others still store a row tile
    // whose slot the queue takes for the next.
    if (G::kQBuffers == 1 && n_ == tile_begin_ && thread() % 32 == 0)
      mbarrier_arrive(shared_.q_empty(tile_));
  }
  // After step i: of this row tile, if there is one.
  template <int kStage>
  __device__ __forceinline__ void await_next_k() const {
    if (n_ != tile_begin_) mbarrier_wait(shared_.k.full(1 - kStage), k_parity<1 - kStage>());
  }
  template <int kStage>
  __device__ __forceinline__ void await_values() const {
    mbarrier_wait(shared_.v.full(kStage), parity_);
    if (__builtin_expect(valid_ != kAllValid, 0))
      zero_values(shared_.v.template tile<G::kTileBytes>(kStage));
  }

  // Read anew where they are needed: registers are short, and these places seldom run.
  __device__ __forceinline__ static int thread() {
    int x;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(x));
    return x;
  }
  __device__ __forceinline__ static int warp_row() {
    return (thread() / 32 - 4) * 16;
  }

  // ---- matrix products

  // A descriptor's low half holds the address and the leading distance, in units of 16 bytes, so
  // that a step within a tile is an addition, which uniform registers can do. An address holds the
  // block's rank in its cluster too, above 18 bits.
  __device__ __forceinline__ static uint32_t descriptor_low(uint32_t addr, int leading) {
    return (addr & 0x3FFFF) >> 4 | static_cast<uint32_t>(leading >> 4) << 16;
  }
  __device__ __forceinline__ static uint64_t descriptor(uint32_t low, int offset, int stride) {
    return (low + (offset >> 4)) | static_cast<uint64_t>(stride >> 4 | G::kSwizzle << 30) << 32;
  }
  // x, of which the compiler then knows nothing: else it keeps a product's descriptors over the
  // loop, more than uniform registers hold.
  __device__ __forceinline__ static uint32_t unknown(uint32_t x) {
    asm volatile("mov.b32 %0, %1;" : "=r"(x) : "r"(x));
    return x;
  }
  template <int kStage>
  __device__ __forceinline__ void multiply_q_k() {
    const uint32_t q = unknown(q_low_);
    const uint32_t k = unknown(descriptor_low(shared_.k.template tile<G::kTileBytes>(kStage), 0));
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < G::kDims / 16; i++) {
      const int chunk = i / G::kStepsPerChunk, within = i % G::kStepsPerChunk * 32;
      Wgmma<G::kKeys>::template multiply_shared<G::kBf16>(
          s_,
          descriptor(q, chunk * G::kQChunkBytes + within, G::kAtomBytes),
          descriptor(k, chunk * G::kAtomBytes + within, G::kGroupBytes),
          i != 0);
    }
    wgmma_commit();
  }
  template <int kStage>
  __device__ __forceinline__ void multiply_p_v(Weights& weights) {
    const uint32_t v =
        descriptor_low(shared_.v.template tile<G::kTileBytes>(kStage), G::kAtomBytes);
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < G::kKeys / 16; i++)
      Wgmma<G::kDims>::template multiply_registers<G::kBf16>(
          o_, weights[i], descriptor(v, i * 2 * G::kGroupBytes, G::kGroupBytes));
    wgmma_commit();
  }
  __device__ __forceinline__ void begin_turn() {
    if (G::kTurns) named_barrier(1 + me_, 256);
  }
  __device__ __forceinline__ void end_turn() {
    if (G::kTurns) named_barrier_arrive(1 + (me_ + 1) % G::kWarpgroups, 256);
  }

  // ---- tiles and masks

  __device__ __forceinline__ const PrefillTile& tile(int j) const {
    return slots_[j & (kPrefillSlots - 1)].tile;
  }
  __device__ __forceinline__ int head(int j) const {
    return slots_[j & (kPrefillSlots - 1)].head;
  }
  __device__ __forceinline__ static int uniform(int x) {
    return __shfl_sync(~0u, x, 0);
  }

  // Row tile tile_ becomes the one that S belongs to; false if there is none.
  __device__ __forceinline__ bool enter() {
    const PrefillTile& t = tile(tile_);
    const int tile_end = uniform(t.tile_end);
    if (tile_end == 0) return false;
    tile_begin_ = uniform(t.tile_begin);
    n_ = tile_end - 1;
    q_low_ = descriptor_low(shared_.q_buffer(tile_) + me_ * 64 * G::kAtom, 0);
    const int limit = uniform(t.limit) + me_ * 64;
    mask_from_ = max(0, min(uniform(t.kv_len), limit)) / G::kKeys;
    if (p_.cap_scale != 0.f) mask_from_ = 0;  // a cap is for all
    mask_below_ = (max(0, limit + 63 - p_.window) + G::kKeys - 1) / G::kKeys;
    return true;
  }

  // What few steps need, behind one branch: caps scores, takes out those that no row may see and
  // notes which rows of V hold numbers. Only key tiles at an end of what this warpgroup's rows see
  // have anything masked.
  __device__ __forceinline__ void treat_scores() {
    valid_ = kAllValid;
    if (__builtin_expect(n_ >= mask_from_ || n_ < mask_below_, 0)) {
      if (p_.cap_scale != 0.f) cap();
      mask();
    }
  }
  __device__ __forceinline__ void cap() {
#pragma unroll
    for (int i = 0; i < G::kKeys / 2; i++)  // tanh(x) = 1 - 2 / (e^2x + 1)
      s_[i] = 1.f - 2.f * rcp_approx(exp2_approx(s_[i] * p_.cap_scale) + 1.f);
  }
  // How many of a thread's elements of a row are of the key tile's first `keys` keys.
  __device__ __forceinline__ static int elements(int keys) {
    keys = max(keys - (thread() & 3) * 2, 0);
    return keys / 8 * 2 + min(keys % 8, 2);
  }
  __device__ __forceinline__ void mask() {
    const PrefillTile& t = tile(tile_);
    const int first_key = n_ * G::kKeys, kv_end = t.kv_len - first_key;
#pragma unroll
    for (int row = 0; row < 2; row++) {
      const int limit = t.limit - first_key + warp_row() + thread() % 32 / 4 + row * 8;
      const int begin = elements(limit - p_.window);
      const uint32_t visible = bit_mask(begin, max(elements(min(limit, kv_end)) - begin, 0));
#pragma unroll
      for (int i = 0; i < G::kKeys / 2; i++)
        if ((i >> 1 & 1) == row && !(visible >> (i / 4 * 2 + i % 2) & 1)) s_[i] = -INFINITY;
    }
    valid_ = uniform(max(0, min(G::kKeys, kv_end)) << 16 |
                     min(max(0, t.limit - p_.window - first_key), G::kKeys));
  }
  // Rows of V without a number may hold anything, NaN too, and 0 x NaN is NaN: each warpgroup
  // zeroes them for itself.
  __device__ __forceinline__ void zero_values(uint32_t values) const {
    constexpr int kUnits = G::kRowBytes / 16;
    const int begin = valid_ & 0xFFFF, end = valid_ >> 16;
#pragma unroll 1
    for (int i = thread() % 128; i < (G::kKeys - end + begin) * kUnits; i += 128) {
      const int at = i / kUnits, row = at < begin ? at : at - begin + end;
      store_shared_zero16(values + unit_offset(G::kRowBytes, row, i % kUnits));
    }
    fence_async_proxy();
    named_barrier(8 + me_, 128);
  }

  // ---- results

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int i = 0; i < G::kDims / 2; i++) o_[i] = 0;
  }

  // The sums of row tile j are complete: keeps their inverses and writes log-sum-exp, or writes
  // them as they are for the merge; starts anew.
  __device__ __forceinline__ void finish_sums(int j) {
    const int lane = thread() % 32, first_row = warp_row();
    const PrefillTile& t = tile(j);
    const int head = this->head(j);
    constexpr float kLog2E = 1.4426950408889634f, kLn2 = 0.6931471805599453f;
#pragma unroll
    for (int row = 0; row < 2; row++) {
      float total = quad_sum(softmax_.sum[row]);
      const int r = first_row + lane / 4 + row * 8;
      if (__builtin_expect(t.part != kNoPart, 0)) {
        if (lane % 4 == 0 && r < t.num_rows)
          p_.part_sum[(t.part + r) * p_.heads + head] = {softmax_.m[row], total};
        factor_[row] = 1.f;
        continue;
      }
      const bool has_keys = total > 0;
      float sink = -INFINITY;
      if (p_.sinks != nullptr) sink = __ldg(p_.sinks + head);
      if (has_keys) total += exp2_approx(sink * kLog2E - softmax_.m[row]);
      factor_[row] = has_keys ? rcp_approx(total) : 0.f;
      if (p_.log_sum_exp != nullptr && lane % 4 == 0 && r < t.num_rows) {
        float lse = (softmax_.m[row] + log2_approx(total)) * kLn2;
        if (isinf(total)) lse = sink;
        p_.log_sum_exp[(t.row + r) * p_.sum_row_floats + head] = has_keys ? lse : -INFINITY;
      }
    }
    softmax_.start_rows();
  }

  // O of row tile out_tile_ to memory, in two parts: what needs O, and what waits until products
  // with a new O are under way. With several buffers of Q, O is packed where weights are yet to be
  // made, and all else waits; with one, it goes out at once, and so does that of a span, unpacked.
  __device__ __forceinline__ void store(Weights& packed) {
#pragma unroll
    for (int i = 0; i < G::kDims / 2; i++) o_[i] *= factor_[i >> 1 & 1];
    static_assert(G::kQBuffers == 1 || G::kKeys >= G::kDims, "O packed takes a key tile's weights");
    if constexpr (G::kQBuffers == 1) {
      store_by_quads();
    } else {
      if (__builtin_expect(tile(out_tile_).part != kNoPart, 0)) store_part();
#pragma unroll
      for (int i = 0; i < G::kDims / 4; i++) packed[i / 4][i % 4] = pair(i);
    }
  }
  __device__ __forceinline__ void store_rest(const Weights& packed) const {
    if constexpr (G::kQBuffers > 1) {
      if (__builtin_expect(tile(out_tile_).part == kNoPart, 1)) return store_through_q(packed);
      __syncwarp();  // the last that the warp reads of the tile
      if (thread() % 32 == 0) mbarrier_arrive(shared_.q_empty(out_tile_));
    }
  }

  // O of a span, for the merge: the four lanes of a row write 32 bytes side by side.
  __device__ __forceinline__ void store_part() const {
    const int lane = thread() % 32, num_rows = tile(out_tile_).num_rows - warp_row();
#pragma unroll
    for (int row = 0; row < 2; row++) {
      float* to = part_row(lane / 4 + row * 8);
      if (lane / 4 + row * 8 >= num_rows) continue;
#pragma unroll
      for (int g = 0; g < G::kDims / 8; g++) store_part_group(to, row, g);
    }
  }
  // Where this thread's columns of row r of the warp go.
  __device__ __forceinline__ float* part_row(int r) const {
    const int part = tile(out_tile_).part + warp_row() + r;
    return p_.part_out + int64_t{part * p_.heads + head(out_tile_)} * G::kDims + thread() % 4 * 2;
  }
  // Those of its 8 dims 8 g ...
  __device__ __forceinline__ void store_part_group(float* to, int row, int g) const {
    *reinterpret_cast<float2*>(to + g * 8) = {o_[g * 4 + row * 2], o_[g * 4 + row * 2 + 1]};
  }
  __device__ __forceinline__ uint32_t pair(int i) const {
    return pack16<G::kBf16>(o_[i * 2], o_[i * 2 + 1]);
  }
  __device__ __forceinline__ uint8_t* first_out() const {
    const PrefillTile& t = tile(out_tile_);
    return p_.out + (t.row + warp_row()) * p_.out_row_bytes + head(out_tile_) * G::kRowBytes;
  }

  // By way of the warp's own rows of Q, which nobody reads any more, in 16-byte stores. A boundary
  // takes as long as it has instructions: addresses differ by constants, and by XOR where a swizzle
  // is in them.
  __device__ __forceinline__ void store_through_q(const Weights& packed) const {
    const int lane = thread() % 32, first_row = warp_row();
    const int num_rows = tile(out_tile_).num_rows - first_row;
    uint8_t* const out = first_out();
    constexpr int kUnits = G::kRowBytes / 16, kAtomUnits = G::kAtom / 16;
    const uint32_t slab = shared_.q_buffer(out_tile_) + first_row * G::kAtom;
    const auto at = [&](int row, int unit) {
      const int swizzled = (unit % kAtomUnits) ^ (row % 8 * G::kAtom / 128);
      return slab + unit / kAtomUnits * G::kQChunkBytes + row * G::kAtom + swizzled * 16;
    };
    const uint32_t write_at = at(lane & 15, lane >> 4);
#pragma unroll
    for (int i = 0; i < G::kDims / 16; i++)  // at(lane & 15, i * 2 + (lane >> 4))
      stmatrix_x4((write_at ^ i * 2 % kAtomUnits * 16) + i * 2 / kAtomUnits * G::kQChunkBytes,
                  packed[i][0],
                  packed[i][1],
                  packed[i][2],
                  packed[i][3]);
    __syncwarp();
    constexpr int kRows = 32 % kUnits == 0 ? 32 / kUnits : 0;  // of a load, if it has whole ones
    const uint32_t read_at = at(lane / kUnits, lane % kUnits);
    uint4 units[G::kDims / 16];
#pragma unroll
    for (int i = 0; i < G::kDims / 16; i++) {
      const int flat = i * 32 + lane;
      units[i] = load_shared16(kRows > 0 ? (read_at ^ i * kRows % 8 * 16) + i * kRows * G::kAtom
                                         : at(flat / kUnits, flat % kUnits));
    }
    fence_async_proxy();
    __syncwarp();
    if (lane == 0) mbarrier_arrive(shared_.q_empty(out_tile_));
    uint8_t* to = out + lane / kUnits * p_.out_row_bytes + lane % kUnits * 16;
#pragma unroll
    for (int i = 0; i < G::kDims / 16; i++) {
      const int flat = i * 32 + lane;
      if (kRows > 0) {
        if (lane / kUnits + i * kRows < num_rows) *reinterpret_cast<uint4*>(to) = units[i];
        to += kRows * p_.out_row_bytes;
      } else if (flat / kUnits < num_rows) {
        *reinterpret_cast<uint4*>(out + flat / kUnits * p_.out_row_bytes + flat % kUnits * 16) =
            units[i];
      }
    }
  }

  // Without room in shared memory: the four lanes of a row exchange 4 x 4 words, so that each has
  // 16 bytes in a row. A span's too: apart from these, its stores cost registers.
  __device__ __forceinline__ void store_by_quads() const {
    const int lane = thread() % 32, num_rows = tile(out_tile_).num_rows - warp_row();
    uint8_t* const out = first_out();
    const int c = lane % 4;
    const bool is_part = tile(out_tile_).part != kNoPart;
#pragma unroll
    for (int row = 0; row < 2; row++) {
      const int r = lane / 4 + row * 8;
      uint8_t* at = out + r * p_.out_row_bytes + c * 16;
      if (is_part) at = reinterpret_cast<uint8_t*>(part_row(r));
#pragma unroll
      for (int i = 0; i < G::kDims / 32; i++) {
        if (is_part) {
#pragma unroll
          for (int g = i * 4; g < i * 4 + 4; g++)
            if (r < num_rows) store_part_group(reinterpret_cast<float*>(at), row, g);
          continue;
        }
        uint32_t w[4];
#pragma unroll
        for (int g = 0; g < 4; g++) w[g] = pair((i * 4 + g) * 2 + row);
        exchange(w[0], w[1], c & 1, 1);
        exchange(w[2], w[3], c & 1, 1);
        exchange(w[0], w[2], c & 2, 2);
        exchange(w[1], w[3], c & 2, 2);
        if (r < num_rows) *reinterpret_cast<uint4*>(at + i * 64) = {w[0], w[1], w[2], w[3]};
      }
    }
  }
  // One step of a transposition: the lower lane's y for the upper lane's x.
  __device__ __forceinline__ static void exchange(uint32_t& x, uint32_t& y, int upper, int lanes) {
    const uint32_t other = __shfl_xor_sync(~0u, upper ? x : y, lanes);
    x = upper ? other : x;
    y = upper ? y : other;
  }

  static constexpr int kAllValid = G::kKeys << 16;
  static constexpr int kLeastPlainSteps = 6;  // 2 and 4 are no faster where all are few

  const PrefillParams& p_;
  const PrefillShared<G>& shared_;
  const PrefillSlot* slots_;
  const int me_;      // which warpgroup
  const bool leads_;  // its first thread

  float s_[G::kKeys / 2], o_[G::kDims / 2];
  Weights weights_a_, weights_b_;
  PrefillSoftmax<G> softmax_;
  float factor_[2];  // what O is due to be multiplied by

  enum class Due : uint8_t { start, nothing, rescale, store };
  Due due_ = Due::start;
  int out_tile_ = 0;                    // the row tile that is due to be stored
  uint32_t q_low_ = 0;                  // descriptor of this warpgroup's rows of Q
  int tile_ = 0;                        // row tiles so far
  uint32_t parity_ = 0;                 // of the stage of the last step
  int n_ = 0, tile_begin_ = 0;          // the key tile of S; the last one of its row tile
  int mask_from_ = 0, mask_below_ = 0;  // key tiles >= and < these have something masked
  int valid_ = 0;                       // first (low half) and end (high) row of V that is a number
};

template <class G>
__global__ void __launch_bounds__(G::kThreads, 1)
    prefill_kernel(const __grid_constant__ PrefillParams p) {
  extern __shared__ __align__(1024) uint8_t memory[];
  __shared__ __align__(8) uint64_t barriers[PrefillShared<G>::kBarriers];
  __shared__ __align__(8) uint64_t mails[8];
  __shared__ PrefillSlot slots[kPrefillSlots];
  const PrefillShared<G> shared(p, smem_addr(memory), smem_addr(barriers), smem_addr(mails));
  if (threadIdx.x == 0) shared.init_barriers();
  if (p.ranks == 2)
    cluster_barrier();
  else
    __syncthreads();
  const int warpgroup = __shfl_sync(~0u, static_cast<int>(threadIdx.x / 128), 0);
  if (warpgroup == 0) {
    release_registers<G::kWarpgroups == 3 ? 32 : 24>();
    PrefillProducer<G> producer(p, shared, slots);
    const int warp = threadIdx.x / 32;
    if (warp == 0)
      producer.run_queue();
    else if (warp == 1)
      producer.run_ring(shared.k);
    else if (warp == 2)
      producer.run_ring(shared.v);
  } else {
    take_registers<G::kWarpgroups == 3 ? 160 : 240>();
    PrefillConsumer<G>(p, shared, slots, warpgroup - 1).run();
  }
  if (p.ranks == 2) cluster_barrier();  // a peer's last words need this block's memory
}

}  // namespace pagoda::cuda
#else
namespace pagoda::cuda {
template <class G>
__global__ void prefill_kernel(const __grid_constant__ PrefillParams) {
  __trap();  // prefill.cpp does not launch it
}
}  // namespace pagoda::cuda
#endif
