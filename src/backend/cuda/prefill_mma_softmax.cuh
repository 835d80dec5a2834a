// The softmax of the prefill kernels by mma.sync: 16 query rows of a warp, two of them a thread's
// (lane / 4 and + 8), with the lazy maximum of prefill_softmax.cuh: a row's weights are
// 2^(score - m), and m moves, to the key tile's maximum plus kHeadroom, only when a weight of that
// row reaches 2. What happens to a row depends on that row alone.
#pragma once

#include <cmath>

#include "backend/cuda/prefill_mma_geometry.cuh"

namespace pagoda::cuda {

template <class G>
struct PrefillMmaSoftmax {
  using Scores = float[G::kKeys / 8][4];
  using Weights = uint32_t[G::kKeys / 16][4];  // operands of mma.sync: P, packed

  static constexpr float kNoReference = -1e30f;      // finite: -inf minus it is -inf
  static constexpr uint32_t kAnyIsTwo = 0x40004000;  // a set bit: one of the pair is >= 2 or NaN

  float m[2];
  float sum[2];         // of the weights in this thread's columns
  float correction[2];  // what O is to be multiplied by after the last `weigh` that says so

  __device__ __forceinline__ void start_rows() {
    m[0] = m[1] = kNoReference;
    sum[0] = sum[1] = 0;
  }

  // Scores become weights; true if O must be multiplied by `correction`. `first`: of their rows;
  // only a shorter way to the same bits, for which f16 kernels have no registers.
  __device__ __forceinline__ bool weigh(const Scores& s,
                                        float scale,
                                        bool first,
                                        Weights& weights) {
    first = first && G::kBf16;
    bool redo = first;
    if (!first) {
      form(s, scale, weights);
      redo = __any_sync(~0u, ((any_[0] | any_[1]) & kAnyIsTwo) != 0);
    }
    if (redo) {
      raise(s, scale, first);
      form(s, scale, weights);
      sum[0] *= correction[0];
      sum[1] *= correction[1];
    }
    sum[0] += tile_sum_[0];
    sum[1] += tile_sum_[1];
    return redo;
  }

  __device__ __forceinline__ static float quad_sum(float x) {
    x += __shfl_xor_sync(~0u, x, 1);
    return x + __shfl_xor_sync(~0u, x, 2);
  }

 private:
  __device__ __forceinline__ void form(const Scores& s, float scale, Weights& weights) {
    tile_sum_[0] = tile_sum_[1] = 0;
    any_[0] = any_[1] = 0;
#pragma unroll
    for (int j = 0; j < G::kKeys / 8; j++)
#pragma unroll
      for (int row = 0; row < 2; row++) {
        const float x = exp2_approx(__fmaf_rn(s[j][row * 2], scale, -m[row]));
        const float y = exp2_approx(__fmaf_rn(s[j][row * 2 + 1], scale, -m[row]));
        tile_sum_[row] += x;
        tile_sum_[row] += y;
        uint32_t& both = weights[j / 2][j % 2 * 2 + row];
        both = pack16<G::kBf16>(x, y);
        any_[row] |= both;
      }
  }

  __device__ __forceinline__ void raise(const Scores& s, float scale, bool first) {
#pragma unroll
    for (int row = 0; row < 2; row++) {
      float x = s[0][row * 2], y = s[0][row * 2 + 1];
#pragma unroll
      for (int j = 1; j < G::kKeys / 8; j++) {
        x = fmaxf(x, s[j][row * 2]);
        y = fmaxf(y, s[j][row * 2 + 1]);
      }
      x = fmaxf(x, y);
      x = fmaxf(x, __shfl_xor_sync(~0u, x, 1));
      x = fmaxf(x, __shfl_xor_sync(~0u, x, 2));
      uint32_t any = any_[row];
      any |= __shfl_xor_sync(~0u, any, 1);
      any |= __shfl_xor_sync(~0u, any, 2);
      const bool up = first ? x > -INFINITY : (any & kAnyIsTwo) != 0;
      const float raised = up ? x * scale + G::kHeadroom : m[row];
      correction[row] = exp2_approx(m[row] - raised);
      m[row] = raised;
    }
  }

  uint32_t any_[2];    // the OR of a row's packed weights, of the last `form`
  float tile_sum_[2];  // their sums
};

}  // namespace pagoda::cuda
