// How each KV format becomes operands of the matrix units. Keys are rows of A in the first product
// (scores of a step of 64 keys: each of 4 warps takes 16), dims are rows of A in the second (each
// warp takes tiles of 16 dims over all keys). The order of dims inside a 16-dim step is whatever
// order the format's bytes arrive in; query_dim and output_dim say which dim that is, so that
// nothing is ever permuted in registers. Integers become f16 as bias + n by one LOP3 or PRMT; int8
// subtracts the bias, int4 leaves it in and takes it off the sums.
#pragma once

#include "backend/cuda/decode_geometry.cuh"
#include "backend/cuda/mma.cuh"

namespace pagoda::cuda {

// What int4 numbers carry, as f16 pairs and as numbers: in accumulator rows 0-7 and 8-15 of V.
constexpr uint32_t kInt4BiasLow = 0x5C005C00, kInt4BiasHigh = 0x4C004C00;
constexpr float kInt4BiasLowValue = 256.f, kInt4BiasHighValue = 16.f;
// Weights times V's scales are f16: a power of two keeps them clear of subnormals.
constexpr float kWeightGain = 1024.f, kWeightGainLog2 = 10.f;

struct Lane {
  int lane, warp;  // warp: of the team
  int row, pair;   // row: of a fragment, and + 8; pair: columns 2 pair, + 1
  __device__ __forceinline__ Lane()
      : lane(threadIdx.x % 32),
        warp(threadIdx.x / 32 % kTeamWarps),
        row(lane / 4),
        pair(lane % 4) {}
};

// The first of the two dims that half `half` of k-step `step` of B holds in this lane.
template <class G>
__device__ __forceinline__ int query_dim(int step, int half, int pair) {
  if constexpr (G::kPlain) return step * 16 + half * 8 + 2 * pair;
  if constexpr (G::kBits == 8) return step * 16 + 4 * pair + 2 * half;
  return step / 2 * 32 + 8 * pair + step % 2 * 4 + 2 * half;
}

// The dim of accumulator row (lane.row, + 8 with `half`) of a warp's tile; >= D: no such dim.
template <class G>
__device__ __forceinline__ int output_dim(const Lane& at, int tile, int half) {
  if constexpr (G::kPlain) return (tile * kTeamWarps + at.warp) * 16 + at.row + 8 * half;
  if constexpr (G::kBits == 8) return (tile * kTeamWarps + at.warp) * 16 + 2 * at.row + half;
  return (tile / 2 * kTeamWarps + at.warp) * 32 + 4 * at.row + 2 * (tile % 2) + half;
}
// output_dim of tile k / 2, half k % 2, less that of tile 0, half 0.
template <class G>
__device__ __forceinline__ constexpr int output_step(int k) {
  if (G::kPlain) return k / 2 * 16 * kTeamWarps + k % 2 * 8;
  if (G::kBits == 8) return k / 2 * 16 * kTeamWarps + k % 2;
  return k / 4 * 32 * kTeamWarps + k / 2 % 2 * 2 + k % 2;
}
template <class G>
__device__ __forceinline__ bool owns_tile(const Lane& at, int tile, int dims) {
  if constexpr (G::kInt4) return (tile / 2 * kTeamWarps + at.warp) * 32 < dims;
  return (tile * kTeamWarps + at.warp) * 16 < dims;
}

// Bytes 0 and 1, or (kStride 2) 0 and 2 after a shift of `first` bytes, of x as two f16.
template <class G, int kStride>
__device__ __forceinline__ uint32_t widen_bytes(uint32_t x, int first) {
  uint32_t y;
  if constexpr (G::kFormat == Format::int8) {
    const uint32_t select = kStride == 2 ? (first ? 0x4341 : 0x4240) : (first ? 0x4342 : 0x4140);
    y = __byte_perm(x, 0x64646464, select);  // 1024 + byte
    const __half2 bias = __half2half2(__ushort_as_half(0x6480));
    *reinterpret_cast<__half2*>(&y) = __hsub2(*reinterpret_cast<__half2*>(&y), bias);
  } else {  // fp8 e4m3
    const uint32_t select = kStride == 2 ? (first ? 0x31 : 0x20) : (first ? 0x32 : 0x10);
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
    const auto two = static_cast<uint16_t>(__byte_perm(x, 0, select));
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(y) : "h"(two));
#else  // the exponent's bias is 8 short; NaN reads as 480, which a finite cache never holds
    const uint32_t two = __byte_perm(x, 0, (select & 0xF0) << 8 | 0x0404 | (select & 0xF) << 4);
    y = (two & 0x80008000u) | ((two >> 1) & 0x3F803F80u);
    const __half2 gain = __half2half2(__ushort_as_half(0x5C00));
    *reinterpret_cast<__half2*>(&y) = __hmul2(*reinterpret_cast<__half2*>(&y), gain);
#endif
  }
  return y;
}

// ---- first product: s += K of 16 keys x queries

template <class G, int kT>
struct Query {
  static constexpr int kSteps = G::kDims / 16;
  uint32_t b[kT][kSteps][2];  // not for wgmma
  // int4: per group, sums of q weighted by the bias of the packed form, and plain.
  float bias_sum[G::kGroups][2], plain_sum[G::kGroups][2];

  __device__ __forceinline__ void sum_up() {
    if constexpr (G::kInt4) {
      const uint32_t bias[4] = {kInt4BiasLow, kInt4BiasLow, kInt4BiasHigh, kInt4BiasHigh};
      const uint32_t one[4] = {0x3C003C00, 0x3C003C00, 0x3C003C00, 0x3C003C00};
#pragma unroll
      for (int g = 0; g < G::kGroups; g++) {
        float x[4] = {}, y[4] = {};
#pragma unroll
        for (int k = 4 * g; k < min(4 * g + 4, kSteps); k++) {
          mma<false>(x, bias, b[0][k][0], b[0][k][1]);
          mma<false>(y, one, b[0][k][0], b[0][k][1]);
        }
#pragma unroll
        for (int j = 0; j < 2; j++) bias_sum[g][j] = x[j], plain_sum[g][j] = y[j];
      }
    }
  }
};

// kN steps side by side: the products of one are a chain.
template <bool kBf16, class G, int kT, int kN, bool kOwn>
__device__ __forceinline__ void scores_plain(float (*s)[kT][4],
                                             const uint32_t (&keys)[kN],
                                             const Query<G, kT>& q,
                                             const Head<G, kOwn>& head,
                                             const Lane& at) {
  const int row = at.warp * 16 + at.lane % 16, par = at.lane / 16;
#pragma unroll
  for (int k = 0; k < G::kDims / 16; k++) {
    if (!kOwn && 16 * k >= head.dims()) break;
    uint32_t a[kN][4];
#pragma unroll
    for (int n = 0; n < kN; n++) ldmatrix_x4(a[n], keys[n] + head.offset(row, 2 * k + par));
#pragma unroll
    for (int n = 0; n < kN; n++)
#pragma unroll
      for (int t = 0; t < kT; t++) mma<kBf16>(s[n][t], a[n], q.b[t][k][0], q.b[t][k][1]);
  }
}

template <class G, bool kOwn>
__device__ __forceinline__ void scores_bytes(
    float (&s)[4], uint32_t keys, const Query<G, 1>& q, const Head<G, kOwn>& head, const Lane& at) {
  const int row = at.warp * 16 + at.lane % 16, par = at.lane / 16;
#pragma unroll
  for (int k = 0; k < G::kDims / 16; k += 2) {
    if (!kOwn && 16 * k >= head.dims()) break;
    uint32_t x[4];
    ldmatrix_x4(x, keys + head.offset(row, min(k + par, head.dims() / 16 - 1)));
#pragma unroll
    for (int h = 0; h < 2; h++) {
      if (!kOwn && 16 * (k + h) >= head.dims()) break;
      const uint32_t a[4] = {widen_bytes<G, 1>(x[2 * h], 0),
                             widen_bytes<G, 1>(x[2 * h + 1], 0),
                             widen_bytes<G, 1>(x[2 * h], 1),
                             widen_bytes<G, 1>(x[2 * h + 1], 1)};
      mma<false>(s, a, q.b[0][k + h][0], q.b[0][k + h][1]);
    }
  }
}

// sums[g] += products with the biased numbers of group g.
template <class G, bool kOwn>
__device__ __forceinline__ void scores_int4(float (&sums)[G::kGroups][4],
                                            uint32_t keys,
                                            const Query<G, 1>& q,
                                            const Head<G, kOwn>& head,
                                            const Lane& at) {
  const int row = at.warp * 16 + at.lane % 16, par = at.lane / 16;
  const int last = (head.dims() + 31) / 32 - 1;
#pragma unroll
  for (int u = 0; u < G::kDims / 32; u += 2) {
    uint32_t x[4];
    ldmatrix_x4(x, keys + head.offset(row, min(u + par, last)));
#pragma unroll
    for (int h = 0; h < 2; h++) {  // a unit that is not there meets queries of zero
      const uint32_t x0 = x[2 * h], x1 = x[2 * h + 1];
      const uint32_t y0 = __funnelshift_r(x0, x0, 8), y1 = __funnelshift_r(x1, x1, 8);
      const uint32_t lo[4] = {and_or(x0, 0x003C003C, kInt4BiasLow),
                              and_or(x1, 0x003C003C, kInt4BiasLow),
                              and_or(x0, 0x03C003C0, kInt4BiasHigh),
                              and_or(x1, 0x03C003C0, kInt4BiasHigh)};
      const uint32_t hi[4] = {and_or(y0, 0x003C003C, kInt4BiasLow),
                              and_or(y1, 0x003C003C, kInt4BiasLow),
                              and_or(y0, 0x03C003C0, kInt4BiasHigh),
                              and_or(y1, 0x03C003C0, kInt4BiasHigh)};
      const int k = 2 * (u + h);
      mma<false>(sums[u / 2], lo, q.b[0][k][0], q.b[0][k][1]);
      mma<false>(sums[u / 2], hi, q.b[0][k + 1][0], q.b[0][k + 1][1]);
    }
  }
}

// ---- second product: o += V^T of two k-steps (32 keys from row `key` of the slot) x weights

template <bool kBf16, class G, int kT, bool kOwn>
__device__ __forceinline__ void values_plain(float (&o)[G::kDimTiles][kT][4],
                                             uint32_t values,
                                             int key,
                                             const uint32_t (&w)[G::kWeightSets][kT][4],
                                             const Head<G, kOwn>& head,
                                             const Lane& at) {
#pragma unroll
  for (int h = 0; h < 2; h++)
#pragma unroll
    for (int d = 0; d < G::kDimTiles; d++) {
      if (!owns_tile<G>(at, d, head.dims())) continue;
      uint32_t a[4];
      const int row = key + h * 16 + at.lane % 8 + at.lane / 16 * 8;
      const int unit = (d * kTeamWarps + at.warp) * 2 + at.lane / 8 % 2;
      ldmatrix_x4_trans(a, values + head.offset(row, unit));
#pragma unroll
      for (int t = 0; t < kT; t++) mma<kBf16>(o[d][t], a, w[0][t][2 * h], w[0][t][2 * h + 1]);
    }
}

template <class G, bool kOwn>
__device__ __forceinline__ void values_bytes(float (&o)[G::kDimTiles][1][4],
                                             uint32_t values,
                                             int key,
                                             const uint32_t (&w)[G::kWeightSets][1][4],
                                             const Head<G, kOwn>& head,
                                             const Lane& at) {
#pragma unroll
  for (int d = 0; d < G::kDimTiles; d++) {
    if (!owns_tile<G>(at, d, head.dims())) continue;
    uint32_t x[4];
    ldmatrix_x4_trans(x, values + head.offset(key + at.lane, d * kTeamWarps + at.warp));
#pragma unroll
    for (int h = 0; h < 2; h++) {
      const uint32_t a[4] = {widen_bytes<G, 2>(x[2 * h], 0),
                             widen_bytes<G, 2>(x[2 * h], 1),
                             widen_bytes<G, 2>(x[2 * h + 1], 0),
                             widen_bytes<G, 2>(x[2 * h + 1], 1)};
      mma<false>(o[d][0], a, w[0][0][2 * h], w[0][0][2 * h + 1]);
    }
  }
}

template <class G, bool kOwn>
__device__ __forceinline__ void values_int4(float (&o)[G::kDimTiles][1][4],
                                            uint32_t values,
                                            int key,
                                            const uint32_t (&w)[G::kWeightSets][1][4],
                                            const Head<G, kOwn>& head,
                                            const Lane& at) {
#pragma unroll
  for (int d = 0; d < G::kDimTiles; d += 2) {
    if (!owns_tile<G>(at, d, head.dims())) continue;
    uint32_t x[4];
    ldmatrix_x4_trans(x, values + head.offset(key + at.lane, d / 2 * kTeamWarps + at.warp));
#pragma unroll
    for (int h = 0; h < 2; h++)
#pragma unroll
      for (int sub = 0; sub < 2; sub++) {
        const uint32_t x0 = sub ? __byte_perm(x[2 * h], 0, 0x2301) : x[2 * h];
        const uint32_t x1 = sub ? __byte_perm(x[2 * h + 1], 0, 0x2301) : x[2 * h + 1];
        const uint32_t a[4] = {and_or(x0, 0x003C003C, kInt4BiasLow),
                               and_or(x0, 0x03C003C0, kInt4BiasHigh),
                               and_or(x1, 0x003C003C, kInt4BiasLow),
                               and_or(x1, 0x03C003C0, kInt4BiasHigh)};
        mma<false>(o[d + sub][0], a, w[d / 2][0][2 * h], w[d / 2][0][2 * h + 1]);
      }
  }
}

}  // namespace pagoda::cuda
