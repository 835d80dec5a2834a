// The algebra of partial softmax results (Dao et al. 2022, section 3; FlashDecoding): a Partial is
// {maximum, sum, values} of some keys, maximum in log2 units; fold joins two, finish turns one into
// the answer. The decode kernel folds in registers and the merge kernel from memory with these same
// functions, so who folds does not show in the bits. No keys: {kNoMaximum, 0, 0}, which fold leaves
// everything else as it was.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "backend/cuda/decode_params.h"
#include "backend/cuda/ptx.cuh"

namespace pagoda::cuda {

constexpr float kNoMaximum = -1e30f;
constexpr float kLog2E = 1.4426950408889634f;
constexpr float kLn2 = 0.6931471805599453f;

template <int kN>
struct Partial {
  float maximum = kNoMaximum, sum = 0.f, values[kN] = {};
};

template <int kN>
__device__ __forceinline__ void fold(Partial<kN>& x, const Partial<kN>& y) {
  const float m = fmaxf(x.maximum, y.maximum);
  const float a = exp2_approx(x.maximum - m), b = exp2_approx(y.maximum - m);
  x.maximum = m;
  x.sum = __fmaf_rn(x.sum, a, __fmul_rn(y.sum, b));
#pragma unroll
  for (int i = 0; i < kN; i++) x.values[i] = __fmaf_rn(x.values[i], a, __fmul_rn(y.values[i], b));
}

// Dims [dim, dim + 4) of partial `index`, which another kernel wrote: out [partials][D], sums
// [partials].
__device__ __forceinline__ Partial<4> load_partial(
    const float* out, const PartSum* sums, int64_t index, int head_dim, int dim) {
  Partial<4> x;
  const float2 sum = __ldcg(reinterpret_cast<const float2*>(sums + index));
  x.maximum = sum.x, x.sum = sum.y;
  *reinterpret_cast<float4*>(x.values) =
      __ldcg(reinterpret_cast<const float4*>(out + index * head_dim + dim));
  return x;
}

// What a thread holds of kT tiles of 8 columns: of each of its 2 columns the maximum, the sum, and
// its rows of the values.
template <int kT, int kDimTiles>
struct TileState {
  float maximum[kT][2], sum[kT][2], values[kDimTiles][kT][4];
  static constexpr int kFloats = kT * (4 + 4 * kDimTiles);

  // f(x, i): each number and its index.
  template <class X, class F>
  __device__ __forceinline__ static void each(X& x, F f) {
#pragma unroll
    for (int t = 0; t < kT; t++) {
#pragma unroll
      for (int j = 0; j < 2; j++) f(x.maximum[t][j], 4 * t + j), f(x.sum[t][j], 4 * t + 2 + j);
#pragma unroll
      for (int k = 0; k < 4 * kDimTiles; k++)
        f(x.values[k / 4][t][k % 4], 4 * kT + t * 4 * kDimTiles + k);
    }
  }
  __device__ __forceinline__ void reset() {
    each(*this, [](float& x, int i) { x = i < 4 * kT && i % 4 < 2 ? kNoMaximum : 0.f; });
  }
  // To and from shared memory, which holds what is rarely wanted; number i at at[i * stride].
  __device__ __forceinline__ void put(float* at, int stride) const {
    each(*this, [&](const float& x, int i) { at[i * stride] = x; });
  }
  __device__ __forceinline__ void get(const float* at, int stride) {
    each(*this, [&](float& x, int i) { x = at[i * stride]; });
  }

  __device__ __forceinline__ void fold_in(const TileState& state) {
#pragma unroll
    for (int t = 0; t < kT; t++)
#pragma unroll
      for (int j = 0; j < 2; j++) {
        Partial<2 * kDimTiles> x, y;
        x.maximum = maximum[t][j], x.sum = sum[t][j];
        y.maximum = state.maximum[t][j], y.sum = state.sum[t][j];
#pragma unroll
        for (int k = 0; k < 2 * kDimTiles; k++) {
          x.values[k] = values[k / 2][t][k % 2 * 2 + j];
          y.values[k] = state.values[k / 2][t][k % 2 * 2 + j];
        }
        fold(x, y);
        maximum[t][j] = x.maximum, sum[t][j] = x.sum;
#pragma unroll
        for (int k = 0; k < 2 * kDimTiles; k++) values[k / 2][t][k % 2 * 2 + j] = x.values[k];
      }
  }
};

// What a sink (a logit that takes weight and gives no value) does to a row, and the row's divisor.
struct Ending {
  float gain;         // values times this are the answer
  float log_sum_exp;  // natural, the sink included
};
__device__ __forceinline__ Ending finish(float maximum, float sum, const float* sinks, int head) {
  if (sum == 0.f) return {0.f, -INFINITY};
  float scale = 1.f;
  if (sinks) {
    const float sink = sinks[head] * kLog2E;
    const float m = fmaxf(maximum, sink);
    scale = exp2_approx(maximum - m);
    sum = __fmaf_rn(sum, scale, exp2_approx(sink - m));
    maximum = m;
  }
  return {__fdiv_rn(scale, sum), __fmaf_rn(maximum, kLn2, logf(sum))};
}

__device__ __forceinline__ void store_out(void* out, int64_t index, float x, bool bf16) {
  if (bf16)
    static_cast<__nv_bfloat16*>(out)[index] = __float2bfloat16_rn(x);
  else
    static_cast<__half*>(out)[index] = __float2half_rn(x);
}

}  // namespace pagoda::cuda
