// One chunk of 256 keys of a team's item: scores (first product), masks, weights (softmax against
// the chunk's own maximum), values (second product), as a TileState that the caller folds. No sums
// cross warps but the chunk's maximum and sum, by the exchange; weights go to all warps of the
// team.
#pragma once

#include "backend/cuda/decode_fold.cuh"
#include "backend/cuda/decode_item.cuh"

namespace pagoda::cuda {

template <class G, int kT>
class ChunkOfConsumer : protected ItemOfConsumer<G, kT> {
 protected:
  using Base = ItemOfConsumer<G, kT>;
  using Base::advance, Base::release, Base::take, Base::team_barrier;
  using Base::at_, Base::base_, Base::item_;
  using Base::p_, Base::query_, Base::smem_, Base::team_at_, Base::used_;
  using typename Base::T;

  using State = TileState<kT, G::kDimTiles>;

  __device__ __forceinline__ ChunkOfConsumer(const DecodeParams& params, uint8_t* smem)
      : Base(params, smem), own_head_(G::kDims == 64 || params.head_dim == G::kDims) {}

  __device__ __forceinline__ void attend(int chunk, State& now) {
    first_key_ = chunk * kChunk;
    const bool all_see_all = this->all_see(first_key_, first_key_ + kChunk);
    Scores s;
    if (T::kWide || own_head_)
      first_product(s, Head<G, true>{p_});
    else
      first_product(s, Head<G, false>{p_});
    if (p_.softcap > 0.f) cap(s);
    if (!all_see_all) mask(s);
    weigh(s, all_see_all, now);
    if (T::kWide || own_head_)
      second_product(now, Head<G, true>{p_});
    else
      second_product(now, Head<G, false>{p_});
    gather_sums(now);
    take_off_bias(now);
  }

  float score_scale_ = 0.f;

 private:
  // Scores s[step][tile] are of this lane's keys (`row` and `row` + 8 of its warp's 16) and 2
  // columns: [j], [2 + j].
  using Scores = float[kSteps][kT][4];

  // ---- scores

  template <bool kOwn>
  __device__ __forceinline__ void first_product(Scores& s, const Head<G, kOwn>& head) {
    constexpr int kAtOnce = G::kPlain && !T::kWide ? 2 : 1;  // steps
    constexpr int kSlots = kAtOnce > G::kSlotSteps ? kAtOnce / G::kSlotSteps : 1;
#pragma unroll
    for (int i = 0; i < kSteps; i += kSlots * G::kSlotSteps) {
      uint32_t slots[kSlots];
      int numbers[kSlots];
#pragma unroll
      for (int n = 0; n < kSlots; n++) slots[n] = take(), numbers[n] = advance();
#pragma unroll
      for (int n = 0; n < kSlots * G::kSlotSteps; n += kAtOnce) {
        uint32_t keys[kAtOnce];
#pragma unroll
        for (int m = 0; m < kAtOnce; m++)
          keys[m] = slots[(n + m) / G::kSlotSteps] +
                    (n + m) % G::kSlotSteps * kStepKeys * head.row_bytes();
        if constexpr (G::kPlain)
          score_plain(&s[i + n], keys, head);
        else
          score_codes(s[i + n][0], keys[0], slots[0] + scales_in_slot(n, head), head);
      }
#pragma unroll
      for (int n = 0; n < kSlots; n++) release(numbers[n]);
    }
  }

  // Steps of 64 keys, side by side.
  template <bool kOwn, int kN>
  __device__ __forceinline__ void score_plain(float (*s)[kT][4],
                                              const uint32_t (&keys)[kN],
                                              const Head<G, kOwn>& head) {
#pragma unroll
    for (int i = 0; i < kN * kT * 4; i++) s[i / (kT * 4)][i / 4 % kT][i % 4] = 0.f;
    if constexpr (T::kWgmma) {
      if (this->is_bf16())
        wgmma_scores<true>(*s, keys[0]);
      else
        wgmma_scores<false>(*s, keys[0]);
    } else {
      if (this->is_bf16())
        scores_plain<true>(s, keys, query_, head, at_);
      else
        scores_plain<false>(s, keys, query_, head, at_);
    }
  }

  template <bool kBf16>
  __device__ __forceinline__ void wgmma_scores(float (&s)[kT][4], uint32_t keys) {
#if PAGODA_SM90
    const uint32_t query = base_ + team_at_ + T::kQueryAt;
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < G::kDims / 16; k++) {
      const int at = k / 4 * 1024 + k % 4 * 32;
      wgmma_n16<kBf16, 0>(s,
                          smem_descriptor(keys + at, 16, 8 * G::kRowBytes),
                          smem_descriptor(query + at, 16, 8 * G::kRowBytes),
                          k > 0);
    }
    wgmma_commit();
    wgmma_wait<0>();
#endif
  }

  // One step; scales: of this lane's first key.
  template <bool kOwn>
  __device__ __forceinline__ void score_codes(float (&s)[4],
                                              uint32_t keys,
                                              uint32_t scales,
                                              const Head<G, kOwn>& head) {
    s[0] = s[1] = s[2] = s[3] = 0.f;
    if constexpr (G::kBits == 8) scores_bytes(s, keys, query_, head, at_);
    if constexpr (G::kFormat == Format::int8) {
#pragma unroll
      for (int j = 0; j < 4; j++)
        s[j] *= __half2float(*at<__half>(scales + j / 2 * 8 * G::kScaleBytes));
    }
    if constexpr (G::kInt4) {
      float sums[G::kGroups][4];
#pragma unroll
      for (int g = 0; g < G::kGroups; g++)
#pragma unroll
        for (int j = 0; j < 4; j++) sums[g][j] = -query_.bias_sum[g][j % 2];
      scores_int4(sums, keys, query_, head, at_);
      scale_int4(s, sums, scales, head);
    }
  }
  template <bool kOwn>
  __device__ __forceinline__ int scales_in_slot(int step, const Head<G, kOwn>& head) const {
    return G::kSlotKeys * head.row_bytes() + key_in_slot(step, 0) * head.scale_bytes();
  }

  __device__ __forceinline__ int key_in_slot(int step, int half) const {
    return step * kStepKeys + at_.warp * 16 + at_.row + 8 * half;
  }
  template <typename T>
  __device__ __forceinline__ T* at(uint32_t address) const {
    return reinterpret_cast<T*>(smem_ + (address - base_));
  }

  // int4: {scale, zero} of a token, for each group of 64 dims; past a smaller head's, its last.
  struct GroupScales {
    __half2 of[G::kGroups];
  };
  __device__ __forceinline__ GroupScales load_scales(uint32_t address) const {
    GroupScales x;
    if constexpr (G::kGroups == 2) {
      *reinterpret_cast<uint2*>(&x) = *at<uint2>(address);
    } else {
#pragma unroll
      for (int g = 0; g < G::kGroups; g++)
        x.of[g] = *at<__half2>(address + min(4 * g, p_.scale_bytes - 4));
    }
    return x;
  }

  // s = scale * sums + zero * (sum of the query), over groups of 64 dims.
  template <bool kOwn>
  __device__ __forceinline__ void scale_int4(float (&s)[4],
                                             const float (&sums)[G::kGroups][4],
                                             uint32_t scales,
                                             const Head<G, kOwn>& head) const {
#pragma unroll
    for (int h = 0; h < 2; h++) {
      const GroupScales k = load_scales(scales + h * 8 * head.scale_bytes());
#pragma unroll
      for (int g = 0; g < G::kGroups; g++) {
        if (!kOwn && g >= head.groups()) break;
        const float2 x = __half22float2(k.of[g]);
#pragma unroll
        for (int j = 0; j < 2; j++)
          s[2 * h + j] = __fmaf_rn(
              x.x, sums[g][2 * h + j], __fmaf_rn(x.y, query_.plain_sum[g][j], s[2 * h + j]));
      }
    }
  }

  // Scores become softcap * tanh(score / softcap) in log2 units (Gemma 2).
  __device__ __forceinline__ void cap(Scores& s) const {
#pragma unroll
    for (int i = 0; i < kSteps * kT * 4; i++) {
      float& x = s[i / (4 * kT)][i / 4 % kT][i % 4];
      const float e = exp2_approx(x * score_scale_ * (2.f * kLog2E));
      x = p_.softcap * (1.f - 2.f * rcp_approx(1.f + e));
    }
  }

  __device__ __forceinline__ void mask(Scores& s) const {
#pragma unroll
    for (int t = 0; t < kT; t++)
#pragma unroll
      for (int j = 0; j < 2; j++) {
        const Column& c = this->column(t * 8 + 2 * at_.pair + j);
        const int from = c.first_key - first_key_, to = c.position - first_key_;
#pragma unroll
        for (int i = 0; i < kSteps; i++)
#pragma unroll
          for (int h = 0; h < 2; h++)
            if (key_in_slot(i, h) < from || key_in_slot(i, h) > to) s[i][t][2 * h + j] = -INFINITY;
      }
  }

  // ---- weights

  __device__ __forceinline__ float2& exchange(int what, int warp, int tile) const {
    const int column = (what * kTeamWarps + warp) * T::kColumns + tile * 8 + 2 * at_.pair;
    return *reinterpret_cast<float2*>(smem_ + team_at_ + T::kExchangeAt + column * 4);
  }

  // The chunk's maximum (over the team), weights to shared memory, sums (of each warp).
  __device__ __forceinline__ void weigh(const Scores& s, bool all_see_all, State& now) {
    const float c = p_.softcap > 0.f ? 1.f : score_scale_;
#pragma unroll
    for (int t = 0; t < kT; t++) {
      float m[2];
#pragma unroll
      for (int j = 0; j < 2; j++) {
        m[j] = kNoMaximum;
#pragma unroll
        for (int i = 0; i < kSteps; i++) m[j] = fmaxf(m[j], fmaxf(s[i][t][j], s[i][t][2 + j]));
#pragma unroll
        for (int d = 4; d < 32; d *= 2) m[j] = fmaxf(m[j], __shfl_xor_sync(~0u, m[j], d));
      }
      if (at_.row == 0) exchange(0, at_.warp, t) = make_float2(m[0], m[1]);
    }
    team_barrier();
    uint32_t scales[kSteps];
    if (first_key_ < item_.key_begin || first_key_ + kChunk > item_.key_end) clear_unread_scales();
    find_value_scales(scales);
#pragma unroll
    for (int t = 0; t < kT; t++) {
      float2 m = exchange(0, 0, t);
#pragma unroll
      for (int w = 1; w < kTeamWarps; w++) {
        const float2 x = exchange(0, w, t);
        m.x = fmaxf(m.x, x.x), m.y = fmaxf(m.y, x.y);
      }
      now.maximum[t][0] = fmaxf(m.x * c, kNoMaximum);
      now.maximum[t][1] = fmaxf(m.y * c, kNoMaximum);
      write_weights(s, scales, now, t, c);
    }
    if constexpr (T::kWgmma) fence_async_proxy();
    team_barrier();
  }

  // Where the scales of V at this lane's first key of each step lie: behind V's rows, which are
  // waited for.
  __device__ __forceinline__ void find_value_scales(uint32_t (&scales)[kSteps]) const {
    if constexpr (G::kScaled) {
      RingPlace place = this->place_;
#pragma unroll
      for (int i = 0; i < kSteps; i += G::kSlotSteps, place.next(p_.num_slots)) {
        const uint32_t slot = this->wait_for(place);
#pragma unroll
        for (int n = 0; n < G::kSlotSteps; n++) scales[i + n] = scales_in(slot, n);
      }
    }
  }
  __device__ __forceinline__ uint32_t scales_in(uint32_t slot, int step) const {
    return slot + G::kSlotKeys * p_.row_bytes + key_in_slot(step, 0) * p_.scale_bytes;
  }
  // What lies in slots never written may be NaN, and 0 x NaN is NaN. The first team clears for all
  // teams of the item, which read the same slot and all call this.
  __device__ __forceinline__ void clear_unread_scales() const {
    if constexpr (G::kScaled) {
      RingPlace place = this->place_;
#pragma unroll 1
      for (int i = 0; i < 2 * kSteps && this->team_ == 0; i++) {
        const int step = i / 2, half = i % 2, key = first_key_ + key_in_slot(step, half);
        if (i > 0 && i % (2 * G::kSlotSteps) == 0) place.next(p_.num_slots);
        const uint32_t scales = scales_in(this->wait_for(place), step % G::kSlotSteps);
        if (key >= item_.key_begin && key < item_.key_end) continue;
#pragma unroll 1
        for (int byte = at_.pair * 2; byte < p_.scale_bytes; byte += 8)
          *at<uint16_t>(scales + half * 8 * p_.scale_bytes + byte) = 0;
      }
      fence_async_proxy();  // the slot's next copy comes behind it
      this->item_barrier();
    }
  }

  __device__ __forceinline__ void write_weights(
      const Scores& s, const uint32_t (&scales)[kSteps], const State& now, int t, float c) {
    constexpr float kGainLog2 = G::kScaled ? kWeightGainLog2 : 0.f;
    const float from[2] = {kGainLog2 - now.maximum[t][0], kGainLog2 - now.maximum[t][1]};
    float sum[2] = {}, zero[G::kGroups][2] = {};
#pragma unroll
    for (int i = 0; i < kSteps; i++) {
      float w[4];
#pragma unroll
      for (int j = 0; j < 4; j++) {
        w[j] = exp2_approx(__fmaf_rn(s[i][t][j], c, from[j % 2]));
        sum[j % 2] += w[j];
      }
      const uint32_t lo = this->pack(w[0], w[1]), hi = this->pack(w[2], w[3]);
      if constexpr (!G::kScaled) store_weights(weights_tile(0, i, t), lo, hi);
      if constexpr (G::kFormat == Format::int8)
        store_weights(weights_tile(0, i, t),
                      times(lo, __half2half2(*at<__half>(scales[i]))),
                      times(hi, __half2half2(*at<__half>(scales[i] + 8 * G::kScaleBytes))));
      if constexpr (G::kInt4) {
        const GroupScales x = load_scales(scales[i]),
                          y = load_scales(scales[i] + 8 * p_.scale_bytes);
#pragma unroll
        for (int g = 0; g < G::kGroups; g++) {
          store_weights(weights_tile(g, i, t),
                        times(lo, __low2half2(x.of[g])),
                        times(hi, __low2half2(y.of[g])));
          const float zx = middle(x.of[g]), zy = middle(y.of[g]);
#pragma unroll
          for (int j = 0; j < 2; j++)
            zero[g][j] = __fmaf_rn(w[2 + j], zy, __fmaf_rn(w[j], zx, zero[g][j]));
        }
      }
    }
    put_sums(1, t, sum);
    if constexpr (G::kInt4) {
#pragma unroll
      for (int g = 0; g < G::kGroups; g++) put_sums(2 + g, t, zero[g]);
    }
  }
  // Of {scale, zero}: scale * 8 + zero. Numbers -8 to 7 around it take half the rounding of 0
  // to 15.
  __device__ __forceinline__ static float middle(__half2 x) {
    return __high2float(__hfma2(__low2half2(x), __float2half2_rn(8.f), x));
  }
  __device__ __forceinline__ static uint32_t times(uint32_t two, __half2 scale) {
    const __half2 y = __hmul2(*reinterpret_cast<__half2*>(&two), scale);
    return *reinterpret_cast<const uint32_t*>(&y);
  }

  __device__ __forceinline__ void put_sums(int what, int t, float (&x)[2]) const {
#pragma unroll
    for (int d = 4; d < 32; d *= 2)
#pragma unroll
      for (int j = 0; j < 2; j++) x[j] += __shfl_xor_sync(~0u, x[j], d);
    if (at_.row == 0) exchange(what, at_.warp, t) = make_float2(x[0], x[1]);
  }

  // Weights lie as B wants them: per group, step and tile [8 columns][64 keys] of 16 bits, 16-byte
  // units XORed with the column.
  __device__ __forceinline__ uint32_t weights_tile(int group, int step, int tile) const {
    return base_ + team_at_ + T::kWeightsAt + ((group * kSteps + step) * kT + tile) * 1024;
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

  // After the products, when registers are free again; the next chunk's first barrier is still
  // ahead.
  __device__ __forceinline__ void gather_sums(State& now) const {
    constexpr float kGain = G::kScaled ? 1.f / kWeightGain : 1.f;
#pragma unroll
    for (int t = 0; t < kT; t++) {
      const float2 sum = gather(1, t);
      now.sum[t][0] = sum.x * kGain, now.sum[t][1] = sum.y * kGain;
    }
  }
  __device__ __forceinline__ float2 gather(int what, int tile) const {
    float2 sum = {0.f, 0.f};
#pragma unroll
    for (int w = 0; w < kTeamWarps; w++) {
      const float2 x = exchange(what, w, tile);
      sum.x += x.x, sum.y += x.y;
    }
    return sum;
  }
  __device__ __forceinline__ int group_of(int set) const {
    return G::kInt4 ? min(2 * set + at_.warp / 2, G::kGroups - 1) : 0;
  }

  // ---- values

  template <bool kOwn>
  __device__ __forceinline__ void second_product(State& now, const Head<G, kOwn>& head) {
#pragma unroll
    for (int j = 0; j < 4; j++) {
#pragma unroll
      for (int d = 0; d < G::kDimTiles && !T::kWgmma; d++)
#pragma unroll
        for (int t = 0; t < kT; t++) now.values[d][t][j] = 0.f;
#pragma unroll
      for (int i = 0; i < G::kWeightSets; i++) weight_sums_[i][j] = 0.f;
    }
#pragma unroll
    for (int i = 0; i < kSteps; i += G::kSlotSteps) {
      const uint32_t slot = take();
      clear_unread_rows(slot, first_key_ + i * kStepKeys, head);
      if constexpr (T::kWgmma) {
        if (this->is_bf16())
          wgmma_values<true>(now, slot, i);
        else
          wgmma_values<false>(now, slot, i);
      } else {
#pragma unroll
        for (int key = 0; key < G::kSlotKeys; key += 32)
          add_values(now, slot, i + key / kStepKeys, key, head);
      }
      release(advance());
    }
  }

  template <bool kBf16>
  __device__ __forceinline__ void wgmma_values(State& now, uint32_t slot, int step) {
#if PAGODA_SM90
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < G::kSlotKeys / 16; k++)
#pragma unroll
      for (int d = 0; d < G::kDimTiles; d++)
        wgmma_n16<kBf16, 1>(
            now.values[d],
            smem_descriptor(slot + d * 1024 + k * 16 * G::kRowBytes, 1024, 8 * G::kRowBytes),
            smem_descriptor(weights_tile(0, step + k / 4, 0) + k % 4 * 32, 16, 1024),
            step + k > 0);
    wgmma_commit();
    wgmma_wait<0>();
#endif
  }

  template <bool kOwn>
  __device__ __forceinline__ void add_values(
      State& now, uint32_t slot, int step, int key, const Head<G, kOwn>& head) {
    uint32_t w[G::kWeightSets][kT][4];
    const int column = at_.lane % 8, unit = key % kStepKeys / 8 + at_.lane / 8;
#pragma unroll
    for (int i = 0; i < G::kWeightSets; i++)
#pragma unroll
      for (int t = 0; t < kT; t++)
        ldmatrix_x4(w[i][t],
                    weights_tile(group_of(i), step, t) + column * 128 + ((unit ^ column) << 4));
    if constexpr (G::kPlain) {
      if (this->is_bf16())
        values_plain<true>(now.values, slot, key, w, head, at_);
      else
        values_plain<false>(now.values, slot, key, w, head, at_);
    }
    if constexpr (G::kBits == 8) values_bytes<G>(now.values, slot, key, w, head, at_);
    if constexpr (G::kInt4) {
      values_int4<G>(now.values, slot, key, w, head, at_);
      // What one row of ones in V would give, which is what the bias of V's numbers multiplies.
      const uint32_t ones[4] = {0x3C003C00, 0x3C003C00, 0x3C003C00, 0x3C003C00};
#pragma unroll
      for (int i = 0; i < G::kWeightSets; i++) {
        mma<false>(weight_sums_[i], ones, w[i][0][0], w[i][0][1]);
        mma<false>(weight_sums_[i], ones, w[i][0][2], w[i][0][3]);
      }
    }
  }

  // 0 x NaN is NaN: rows that no token of the item has written read as zero. Integers are never
  // NaN.
  template <bool kOwn>
  __device__ __forceinline__ void clear_unread_rows(uint32_t slot,
                                                    int key0,
                                                    const Head<G, kOwn>& head) const {
    if constexpr (!G::kScaled) {
      const int from = item_.key_begin - key0, to = item_.key_end - key0;
      if (from <= 0 && to >= G::kSlotKeys) return;
      const int units = head.row_bytes() / 16;
      for (int row = at_.lane; row < G::kSlotKeys && this->team_ == 0; row += 32) {
        if (row >= from && row < to) continue;
        for (int unit = at_.warp; unit < units; unit += kTeamWarps)
          store_shared_zero16(slot + head.offset(row, unit));
      }
      fence_async_proxy();
      this->item_barrier();
    }
  }

  // Numbers came as f16 with a bias and weights with a gain; int4: V =
  // scale * (n - 8) + middle.
  __device__ __forceinline__ void take_off_bias(State& now) const {
    if constexpr (G::kScaled) {
#pragma unroll
      for (int d = 0; d < G::kDimTiles; d++) {
        const float2 zero = G::kInt4 ? gather(2 + group_of(d / 2), 0) : float2();
#pragma unroll
        for (int j = 0; j < 4; j++) {
          float x = now.values[d][0][j];
          if constexpr (G::kInt4) {
            const float bias = (j < 2 ? kInt4BiasLowValue : kInt4BiasHighValue) + 8.f;
            x = __fmaf_rn(-bias, weight_sums_[d / 2][j % 2], x) + (j % 2 ? zero.y : zero.x);
          }
          now.values[d][0][j] = x * (1.f / kWeightGain);
        }
      }
    }
  }

  bool own_head_;
  int first_key_ = 0;                     // of the chunk
  float weight_sums_[G::kWeightSets][4];  // int4
};

}  // namespace pagoda::cuda
