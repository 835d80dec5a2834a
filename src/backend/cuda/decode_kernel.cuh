// decode_kernel: causal softmax(q kᵀ scale) v for a few query rows per sequence over the paged
// cache.
//   In: q [T, H * D], cache [N][KH][K | V | scales], block table, the plan's items and rows. Out:
//   [T, H * D] for rows of one part; else partials [parts][H][D] f32 for merge.cu.
//   A block walks items (a section of 2048 keys, or a chunk of 256, for up to kColumns columns =
//   rows x heads of one KV head). The last warp loads; the 4 warps of a team take 16 keys of each
//   64 in S = K Qᵀ and a slice of the dims in Oᵀ = Vᵀ P, so no sums cross warps but the chunk's
//   maximum and sum. Two teams share the columns of the wide kernels. Moves KV once: 2 D
//   bytes(dtype) per key and KV head; 4 D H FLOPs per key and row. Limits, checked by decode.cpp: S
//   a multiple of 16, columns <= kColumns, slots >= 2. Must equal reference attention; bits depend
//   on the row alone (decode_params.h).
#pragma once

#include "backend/cuda/decode_fold.cuh"
#include "backend/cuda/decode_item.cuh"

namespace pagoda::cuda {

template <class G>
class Consumer : ItemOfConsumer<G> {
  using Base = ItemOfConsumer<G>;
  using Base::advance, Base::release, Base::take, Base::team_barrier;
  using Base::all_from_, Base::all_to_, Base::at_, Base::base_, Base::columns_, Base::item_;
  using Base::kT, Base::kv_head_, Base::kWgmma, Base::p_, Base::query_, Base::smem_, Base::team_;

 public:
  __device__ __forceinline__ Consumer(const DecodeParams& params, uint8_t* smem)
      : Base(params, smem),
        exchange_(reinterpret_cast<float*>(smem + G::kExchangeAt + team_ * G::kExchangeBytes)) {}

  __device__ __forceinline__ void run() {
    const int total = p_.header->num_items * p_.kv_heads;
    const int per_part = p_.header->chunks_per_part;
    bool waited = false;
    for (int work = blockIdx.x, turn = 0; work < total; work += gridDim.x, turn ^= 1) {
      this->take_item(work / p_.kv_heads, work % p_.kv_heads, turn);
      if (!waited) pdl_wait();
      waited = true;
      const ChunkRange chunks = chunks_of(item_, per_part);
      if (this->used_ <= 0) {
        pass_by(chunks);
        continue;
      }
      this->load_query();
      const float k_scale = p_.k_scales ? p_.k_scales[kv_head_] : 1.f;
      score_scale_ = p_.score_scale * k_scale;
      reset(section_);
      if constexpr (G::kWholeRows) reset(row_);
      for (int chunk = chunks.begin; chunk < chunks.end; chunk++) {
        if constexpr (G::kWholeRows)
          if (chunk % kChunksPerSection == 0) close_section();
        attend(chunk);
      }
      if constexpr (G::kWholeRows) {
        close_section();
        hand_over(row_);
      } else {
        hand_over(section_);
      }
    }
    if (!waited) pdl_wait();
  }

 private:
  // Stages of the first product whose chains run side by side.
  static constexpr int kAtOnce = G::kPlain && G::kTeams == 1 && kT == 1 ? 2 : 1;

  using State = TileState<kT, G::kDimTiles>;

  // A team without columns only lets the slots go.
  __device__ __forceinline__ void pass_by(const ChunkRange& chunks) {
    for (int chunk = chunks.begin; chunk < chunks.end; chunk++) {
      const ChunkRange stages = stages_of<G>(item_, chunk);
      for (int i = 0; i < 2 * (stages.end - stages.begin); i++) {
        take();
        release(advance());
      }
    }
  }

  __device__ __forceinline__ void reset(State& x) const {
#pragma unroll
    for (int t = 0; t < kT; t++)
#pragma unroll
      for (int j = 0; j < 4; j++) {
        x.maximum[t][j % 2] = kNoMaximum, x.sum[t][j % 2] = 0.f;
#pragma unroll
        for (int d = 0; d < G::kDimTiles; d++) x.values[d][t][j] = 0.f;
      }
  }

  // ---- one chunk of 256 keys, folded into the item's state

  __device__ __forceinline__ void attend(int chunk) {
    stages_ = stages_of<G>(item_, chunk);
    first_key_ = chunk * kChunk;
    const bool all_see_all = first_key_ >= all_from_ && first_key_ + kChunk <= all_to_;
    float s[kStages][kT][4];
    ValueScales<G> scales[kStages];
    first_product(s, scales);
    if (p_.softcap > 0.f) cap(s);
    if (!all_see_all) mask(s, scales);
    State now;
    float zeros[G::kGroups][kT][2];
    weigh(s, scales, now, zeros);
    second_product(now);
    add_zeros(now, zeros);
    fold_in(section_, now);
  }

  __device__ __forceinline__ bool has_stage(int i) const {
    return G::kWantsWgmma || (i >= stages_.begin && i < stages_.end);
  }

  __device__ __forceinline__ void first_product(float (&s)[kStages][kT][4],
                                                ValueScales<G> (&scales)[kStages]) {
#pragma unroll
    for (int i = 0; i < kStages; i++)
#pragma unroll
      for (int t = 0; t < kT; t++)
#pragma unroll
        for (int j = 0; j < 4; j++) s[i][t][j] = has_stage(i) ? 0.f : -INFINITY;
#pragma unroll
    for (int i = 0; i < kStages; i += kAtOnce) {
      if constexpr (kAtOnce == 2) {
        if (has_stage(i) && has_stage(i + 1)) {
          const uint32_t first = take();
          const int first_slot = advance();
          const uint32_t slots[2] = {first, take()};
          scores_plain<G, 2>(&s[i], slots, query_, base_ + G::kQueryAt, at_);
          release(first_slot);
          release(advance());
          continue;
        }
      }
#pragma unroll
      for (int n = i; n < i + kAtOnce; n++) {
        if (!has_stage(n)) {
          clear_scales(scales[n]);
          continue;
        }
        const uint32_t slot = take();
#if PAGODA_SM90
        if constexpr (kWgmma) wgmma_scores(s[n], slot);
#endif
        if constexpr (!kWgmma) stage_scores(s[n], scales[n], slot);
        release(advance());
      }
    }
  }

#if PAGODA_SM90
  __device__ __forceinline__ void wgmma_scores(float (&s)[kT][4], uint32_t slot) {
    constexpr int kStride = 8 * G::kRowBytes;
    const uint32_t query = base_ + G::kQueryAt + team_ * G::kQueryBytes;
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < G::kHeadDim / 16; k++) {
      const int at = k / 4 * 1024 + k % 4 * 32;
      wgmma_n16<G::kBf16, 0>(s,
                             smem_descriptor(slot + at, 16, kStride),
                             smem_descriptor(query + at, 16, kStride),
                             k > 0);
    }
    wgmma_commit();
    wgmma_wait<0>();
  }
#endif

  __device__ __forceinline__ void clear_scales(ValueScales<G>& x) const {
#pragma unroll
    for (int h = 0; h < ValueScales<G>::kKeys; h++)
#pragma unroll
      for (int g = 0; g < G::kGroups; g++) x.of[h][g] = make_float2(0.f, 0.f);
  }

  __device__ __forceinline__ void stage_scores(float (&s)[kT][4],
                                               ValueScales<G>& values,
                                               uint32_t slot) {
    if constexpr (G::kPlain) {
      const uint32_t slots[1] = {slot};
      scores_plain<G, 1>(&s, slots, query_, base_ + G::kQueryAt + team_ * G::kQueryBytes, at_);
    }
    if constexpr (G::kBits == 8) scores_bytes<G>(s, slot, query_, at_);
    if constexpr (G::kFormat == Format::int8) scale_int8(s, values, slot);
    if constexpr (G::kFormat == Format::int4) {
      float sums[G::kGroups][kT][4];
#pragma unroll
      for (int g = 0; g < G::kGroups; g++)
#pragma unroll
        for (int t = 0; t < kT; t++)
#pragma unroll
          for (int j = 0; j < 4; j++) sums[g][t][j] = -query_.bias_sum[t][g][j % 2];
      scores_int4<G>(sums, slot, query_, at_);
      scale_int4(s, sums, values, slot);
    }
  }

  __device__ __forceinline__ const __half2* scales_of(uint32_t slot, int half) const {
    const int key = at_.warp * 16 + at_.row + 8 * half;
    return reinterpret_cast<const __half2*>(smem_ + (slot - base_) + G::kDataBytes +
                                            key * G::kScaleBytes);
  }
  __device__ __forceinline__ void scale_int8(float (&s)[kT][4],
                                             ValueScales<G>& values,
                                             uint32_t slot) const {
#pragma unroll
    for (int h = 0; h < 2; h++) {
      const auto* k = reinterpret_cast<const __half*>(scales_of(slot, h));
      const float scale = __half2float(k[0]);
      values.of[h][0].x = __half2float(k[kStageKeys]) * kWeightGain;
#pragma unroll
      for (int t = 0; t < kT; t++) s[t][2 * h] *= scale, s[t][2 * h + 1] *= scale;
    }
  }
  __device__ __forceinline__ void scale_int4(float (&s)[kT][4],
                                             const float (&sums)[G::kGroups][kT][4],
                                             ValueScales<G>& values,
                                             uint32_t slot) const {
#pragma unroll
    for (int h = 0; h < 2; h++) {
      const __half2* k = scales_of(slot, h);
#pragma unroll
      for (int g = 0; g < G::kGroups; g++) {
        const float2 kk = __half22float2(k[g]);
        const float2 vv = __half22float2(k[kStageKeys * G::kGroups + g]);
        values.of[h][g] = make_float2(vv.x * kWeightGain, vv.y);
#pragma unroll
        for (int t = 0; t < kT; t++)
#pragma unroll
          for (int j = 0; j < 2; j++)
            s[t][2 * h + j] = __fmaf_rn(
                kk.x,
                sums[g][t][2 * h + j],
                __fmaf_rn(kk.y, query_.plain_sum[t][g][j], g > 0 ? s[t][2 * h + j] : 0.f));
      }
    }
  }

  // Scores become softcap * tanh(score / softcap) in log2 units (Gemma 2).
  __device__ __forceinline__ void cap(float (&s)[kStages][kT][4]) const {
#pragma unroll
    for (int i = 0; i < kStages; i++)
#pragma unroll
      for (int t = 0; t < kT; t++)
#pragma unroll
        for (int j = 0; j < 4; j++) {
          const float e = exp2_approx(s[i][t][j] * score_scale_ * (2.f * kLog2E));
          s[i][t][j] = p_.softcap * (1.f - 2.f * rcp_approx(1.f + e));
        }
  }

  __device__ __forceinline__ void mask(float (&s)[kStages][kT][4],
                                       ValueScales<G> (&scales)[kStages]) const {
#pragma unroll
    for (int t = 0; t < kT; t++)
#pragma unroll
      for (int j = 0; j < 2; j++) {
        const Column& column = columns_[t * 8 + 2 * at_.pair + j];
        const int from = column.first_key, to = column.position;
#pragma unroll
        for (int i = 0; i < kStages; i++)
#pragma unroll
          for (int h = 0; h < 2; h++) {
            const int key = first_key_ + i * kStageKeys + at_.warp * 16 + at_.row + 8 * h;
            if (key < from || key > to) s[i][t][2 * h + j] = -INFINITY;
          }
      }
    if constexpr (G::kScaleBytes > 0) {  // what lies in slots never written may be NaN
#pragma unroll
      for (int i = 0; i < kStages; i++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
          const int key = first_key_ + i * kStageKeys + at_.warp * 16 + at_.row + 8 * h;
          if (key >= item_.key_begin && key < item_.key_end) continue;
#pragma unroll
          for (int g = 0; g < G::kGroups; g++) scales[i].of[h][g] = make_float2(0.f, 0.f);
        }
    }
  }

  __device__ __forceinline__ float2& exchange(int what, int warp, int tile) const {
    return *reinterpret_cast<float2*>(exchange_ + (what * kConsumerWarps + warp) * G::kTeamColumns +
                                      tile * 8 + 2 * at_.pair);
  }

  // The chunk's maximum (over the block), weights P to shared memory, sums (over the block).
  __device__ __forceinline__ void weigh(float (&s)[kStages][kT][4],
                                        const ValueScales<G> (&scales)[kStages],
                                        State& now,
                                        float (&zeros)[G::kGroups][kT][2]) {
    const float c = p_.softcap > 0.f ? 1.f : score_scale_;
#pragma unroll
    for (int t = 0; t < kT; t++) {
      float m[2];
#pragma unroll
      for (int j = 0; j < 2; j++) {
        m[j] = kNoMaximum;
#pragma unroll
        for (int i = 0; i < kStages; i++) m[j] = fmaxf(m[j], fmaxf(s[i][t][j], s[i][t][2 + j]));
#pragma unroll
        for (int d = 4; d < 32; d *= 2) m[j] = fmaxf(m[j], __shfl_xor_sync(~0u, m[j], d));
      }
      if (at_.row == 0) exchange(0, at_.warp, t) = make_float2(m[0], m[1]);
    }
    team_barrier();
#pragma unroll
    for (int t = 0; t < kT; t++) {
      float2 m = exchange(0, 0, t);
#pragma unroll
      for (int w = 1; w < kConsumerWarps; w++) {
        const float2 x = exchange(0, w, t);
        m.x = fmaxf(m.x, x.x), m.y = fmaxf(m.y, x.y);
      }
      now.maximum[t][0] = fmaxf(m.x * c, kNoMaximum),
      now.maximum[t][1] = fmaxf(m.y * c, kNoMaximum);
      write_weights(s, scales, now, t, c);
    }
    if constexpr (kWgmma) fence_async_proxy();
    team_barrier();
#pragma unroll
    for (int t = 0; t < kT; t++) {
      float2 sum = {0.f, 0.f};
#pragma unroll
      for (int w = 0; w < kConsumerWarps; w++) {
        const float2 x = exchange(1, w, t);
        sum.x += x.x, sum.y += x.y;
      }
      now.sum[t][0] = sum.x, now.sum[t][1] = sum.y;
      gather_zeros(zeros, t);
    }
  }

  __device__ __forceinline__ void write_weights(float (&s)[kStages][kT][4],
                                                const ValueScales<G> (&scales)[kStages],
                                                const State& now,
                                                int t,
                                                float c) {
    float sum[2] = {}, zero[G::kGroups][2] = {};
#pragma unroll
    for (int i = 0; i < kStages; i++) {
      float w[4];
#pragma unroll
      for (int j = 0; j < 4; j++) {
        w[j] = exp2_approx(__fmaf_rn(s[i][t][j], c, -now.maximum[t][j % 2]));
        sum[j % 2] += w[j];
      }
#pragma unroll
      for (int g = 0; g < G::kGroups; g++) {
        float x[4] = {w[0], w[1], w[2], w[3]};
        if constexpr (G::kScaleBytes > 0) {
#pragma unroll
          for (int j = 0; j < 4; j++) {
            x[j] *= scales[i].of[j / 2][g].x;
            if constexpr (G::kFormat == Format::int4)
              zero[g][j % 2] = __fmaf_rn(w[j], scales[i].of[j / 2][g].y, zero[g][j % 2]);
          }
        }
        const uint32_t lo = pack16<G::kBf16>(x[0], x[1]), hi = pack16<G::kBf16>(x[2], x[3]);
        store_weights(weights_tile(g, i, t), lo, hi);
      }
    }
    put_sums(1, t, sum);
    if constexpr (G::kFormat == Format::int4) {
#pragma unroll
      for (int g = 0; g < G::kGroups; g++) put_sums(2 + g, t, zero[g]);
    }
  }

  __device__ __forceinline__ void put_sums(int what, int t, float (&x)[2]) const {
#pragma unroll
    for (int d = 4; d < 32; d *= 2)
#pragma unroll
      for (int j = 0; j < 2; j++) x[j] += __shfl_xor_sync(~0u, x[j], d);
    if (at_.row == 0) exchange(what, at_.warp, t) = make_float2(x[0], x[1]);
  }

  // Weights lie as B wants them: per stage and 8 columns, [8 columns][64 keys] of 16 bits, 16-byte
  // units XORed with the column.
  __device__ __forceinline__ uint32_t weights_tile(int group, int stage, int tile) const {
    return base_ + G::kWeightsAt + team_ * G::kWeightsBytes +
           ((group * kStages + stage) * kT + tile) * 1024;
  }
  __device__ __forceinline__ void store_weights(uint32_t tile, uint32_t lo, uint32_t hi) const {
#if PAGODA_SM90
    const int column = at_.lane % 8, unit = at_.warp * 2 + at_.lane / 8 % 2;
    stmatrix_x2_trans(tile + column * 128 + ((unit ^ column) << 4), lo, hi);
#else
#pragma unroll
    for (int j = 0; j < 2; j++) {
      const int column = 2 * at_.pair + j, unit = at_.warp * 2;
      const uint32_t line = tile + column * 128 + at_.row * 2;
      store_shared_u16(line + ((unit ^ column) << 4), lo >> (16 * j));
      store_shared_u16(line + (((unit + 1) ^ column) << 4), hi >> (16 * j));
    }
#endif
  }

  // int4: V = scale * n + zero. zeros[set]: sums of weight x zero, for this warp's groups.
  __device__ __forceinline__ void gather_zeros(float (&zeros)[G::kGroups][kT][2], int t) const {
    if constexpr (G::kFormat == Format::int4) {
#pragma unroll
      for (int i = 0; i < G::kWeightSets; i++) {
        float2 z = {0.f, 0.f};
#pragma unroll
        for (int w = 0; w < kConsumerWarps; w++) {
          const float2 x = exchange(2 + group_of(i), w, t);
          z.x += x.x, z.y += x.y;
        }
        zeros[i][t][0] = z.x, zeros[i][t][1] = z.y;
      }
    }
  }
  __device__ __forceinline__ int group_of(int set) const {
    return G::kFormat == Format::int4 ? min(2 * set + at_.warp / 2, G::kGroups - 1) : 0;
  }

  __device__ __forceinline__ void second_product(State& now) {
#pragma unroll
    for (int d = 0; d < G::kDimTiles; d++)
#pragma unroll
      for (int t = 0; t < kT; t++)
#pragma unroll
        for (int j = 0; j < 4 && !kWgmma; j++) now.values[d][t][j] = 0.f;
#pragma unroll
    for (int i = 0; i < G::kWeightSets; i++)
#pragma unroll
      for (int t = 0; t < kT; t++)
#pragma unroll
        for (int j = 0; j < 4; j++) weight_sums_[i][t][j] = 0.f;
#pragma unroll
    for (int i = 0; i < kStages; i++) {
      if (!has_stage(i)) continue;
      const uint32_t slot = take();
      clear_unread_rows(slot, first_key_ + i * kStageKeys);
      if constexpr (kWgmma) {
#if PAGODA_SM90
        wgmma_values(now, slot, i);
#endif
      } else {
#pragma unroll
        for (int key = 0; key < kStageKeys; key += 32) stage_values(now, slot, i, key);
      }
      release(advance());
    }
  }

#if PAGODA_SM90
  __device__ __forceinline__ void wgmma_values(State& now, uint32_t slot, int stage) {
    constexpr int kStride = 8 * G::kRowBytes;
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < kStageKeys / 16; k++)
#pragma unroll
      for (int d = 0; d < G::kDimTiles; d++)
        wgmma_n16<G::kBf16, 1>(now.values[d],
                               smem_descriptor(slot + d * 1024 + k * 2 * kStride, 1024, kStride),
                               smem_descriptor(weights_tile(0, stage, 0) + k * 32, 16, 1024),
                               stage + k > 0);
    wgmma_commit();
    wgmma_wait<0>();
  }
#endif

  __device__ __forceinline__ void stage_values(State& now, uint32_t slot, int stage, int key) {
    uint32_t w[G::kWeightSets][kT][4];
    const int column = at_.lane % 8, unit = key / 8 + at_.lane / 8;
#pragma unroll
    for (int i = 0; i < G::kWeightSets; i++) {
#pragma unroll
      for (int t = 0; t < kT; t++)
        ldmatrix_x4(w[i][t],
                    weights_tile(group_of(i), stage, t) + column * 128 + ((unit ^ column) << 4));
    }
    if constexpr (G::kPlain) values_plain<G>(now.values, slot, key, w, at_);
    if constexpr (G::kBits == 8) values_bytes<G>(now.values, slot, key, w, at_);
    if constexpr (G::kFormat == Format::int4) {
      values_int4<G>(now.values, slot, key, w, at_);
      sum_weights(w);
    }
  }

  // int4: what one row of ones in V would give, which is what the bias of V's numbers multiplies.
  __device__ __forceinline__ void sum_weights(const uint32_t (&w)[G::kWeightSets][kT][4]) {
    const uint32_t ones[4] = {0x3C003C00, 0x3C003C00, 0x3C003C00, 0x3C003C00};
#pragma unroll
    for (int i = 0; i < G::kWeightSets; i++)
#pragma unroll
      for (int t = 0; t < kT; t++) {
        mma<false>(weight_sums_[i][t], ones, w[i][t][0], w[i][t][1]);
        mma<false>(weight_sums_[i][t], ones, w[i][t][2], w[i][t][3]);
      }
  }

  // 0 x NaN is NaN: rows that no token of the item has written read as zero. Each warp clears the
  // units it reads itself; wgmma reads for all warps.
  __device__ __forceinline__ void clear_unread_rows(uint32_t slot, int key0) const {
    if constexpr (G::kScaleBytes == 0) {
      const int from = item_.key_begin - key0, to = item_.key_end - key0;
      if (from <= 0 && to >= kStageKeys) return;
      constexpr int kUnits = G::kRowBytes / 16, kPerTile = G::kPlain ? 2 : 1;
      for (int row = at_.lane; row < kStageKeys; row += 32) {
        if (row >= from && row < to) continue;
        for (int unit = 0; unit < kUnits; unit++)
          if (unit / kPerTile % kConsumerWarps == at_.warp)
            store_shared_zero16(slot + unit_offset(G::kRowBytes, row, unit));
      }
      fence_async_proxy();
      __syncwarp();
      if constexpr (kWgmma) team_barrier();
    }
  }

  __device__ __forceinline__ void add_zeros(State& now, const float (&zeros)[G::kGroups][kT][2]) {
    if constexpr (G::kScaleBytes > 0) {
#pragma unroll
      for (int d = 0; d < G::kDimTiles; d++)
#pragma unroll
        for (int t = 0; t < kT; t++)
#pragma unroll
          for (int j = 0; j < 4; j++) {
            float& x = now.values[d][t][j];
            if constexpr (G::kFormat == Format::int4) {
              const float bias = j < 2 ? kInt4BiasLowValue : kInt4BiasHighValue;
              x = (x - bias * weight_sums_[d / 2][t][j % 2]) * (1.f / kWeightGain) +
                  zeros[d / 2][t][j % 2];
            } else {
              x *= 1.f / kWeightGain;
            }
          }
    }
  }

  __device__ __forceinline__ void close_section() {
    fold_in(row_, section_);
    reset(section_);
  }

  // ---- the item's result: the answer, or a partial

  __device__ __forceinline__ void hand_over(const State& total) const {
    const float v_scale = p_.v_scales ? p_.v_scales[kv_head_] : 1.f;
#pragma unroll
    for (int t = 0; t < kT; t++)
#pragma unroll
      for (int j = 0; j < 2; j++) {
        const Column c = columns_[t * 8 + 2 * at_.pair + j];
        if (c.token < 0) continue;
        const bool first = at_.warp == 0 && at_.row == 0;
        const int64_t part = int64_t{c.part} * (p_.kv_heads * p_.group) + c.head;
        const Ending end = finish(total.maximum[t][j], total.sum[t][j], p_.sinks, c.head);
        const float gain = end.gain * v_scale;
        if (first && c.part >= 0) p_.part_sum[part] = {total.maximum[t][j], total.sum[t][j]};
        if (first && c.part < 0 && p_.log_sum_exp)
          p_.log_sum_exp[c.token * p_.sum_row_floats + c.head] = end.log_sum_exp;
        uint8_t* out = static_cast<uint8_t*>(p_.out) + c.token * p_.out_row_bytes;
#pragma unroll
        for (int k = 0; k < 2 * G::kDimTiles; k++) {
          const int dim = output_dim<G>(at_, k / 2, k % 2);
          if (dim >= G::kHeadDim) continue;
          const float x = total.values[k / 2][t][k % 2 * 2 + j];
          if (c.part >= 0)
            p_.part_out[part * G::kHeadDim + dim] = x;
          else
            store_out(out, c.head * G::kHeadDim + dim, x * gain, p_.q_is_bf16);
        }
      }
  }

  float* exchange_;
  int first_key_ = 0;  // of the chunk
  ChunkRange stages_ = {0, 0};
  float score_scale_ = 0.f;
  float weight_sums_[G::kWeightSets][kT][4];  // int4
  State section_;
  State row_;  // of the sections before; only with kWholeRows
};

template <class G>
__global__ void __launch_bounds__(G::kThreads, G::kMinBlocks)
    decode_kernel(const __grid_constant__ DecodeParams p) {
  extern __shared__ __align__(1024) uint8_t smem[];
  const uint32_t base = smem_addr(smem);
  pdl_launch_next();
  if (threadIdx.x == 0) {
    for (int i = 0; i < p.num_slots; i++) {
      mbarrier_init(full_barrier(base, i), PAGODA_SM90 ? 1 : 32);
      mbarrier_init(empty_barrier(base, i), kConsumerWarps * G::kTeams);
    }
    mbarrier_init_fence();
  }
  __syncthreads();
  if (threadIdx.x >= G::kTeams * kTeamThreads)
    Producer<G>(p, base).run();
  else
    Consumer<G>(p, smem).run();
}

}  // namespace pagoda::cuda
