// The softmax of the prefill kernels, with a lazy maximum. Each row has a reference exponent m, and
// its weights are 2^(score - m). m stays until a weight of the row reaches 2; then it becomes the
// key tile's maximum plus kHeadroom. So weights are formed without a maximum first and O is not
// rescaled, but in a row's first key tile and after a jump of 2^(kHeadroom + 1); the test is an OR
// over packed weights. What happens to a row depends on that row alone: its bits know neither tile
// of rows, nor chunk, nor neighbours. (FlashAttention-4 rescales lazily too, against a running
// maximum; here the maximum itself is skipped.)
#pragma once

#include <cmath>

#include "backend/cuda/prefill_geometry.cuh"

#if PAGODA_SM90
namespace pagoda::cuda {

constexpr float kNoReference = -1e30f;  // finite: -inf minus it is -inf
constexpr uint32_t kAnyIsTwo =
    0x40004000;  // a set bit: of the pair, bf16 or f16, one is >= 2 or NaN

__device__ __forceinline__ float quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(~0u, x, 1));
  return fmaxf(x, __shfl_xor_sync(~0u, x, 2));
}
__device__ __forceinline__ float quad_sum(float x) {
  x += __shfl_xor_sync(~0u, x, 1);
  return x + __shfl_xor_sync(~0u, x, 2);
}
__device__ __forceinline__ uint32_t quad_or(uint32_t x) {
  x |= __shfl_xor_sync(~0u, x, 1);
  return x | __shfl_xor_sync(~0u, x, 2);
}

enum class Pace : uint8_t { compilers, even };  // of exponentials: see PrefillSoftmax::form

// A thread's two rows (l / 4 and + 8 of its warp's 16).
template <class G>
struct PrefillSoftmax {
  static constexpr int kScores = G::kKeys / 2;
  using Weights = uint32_t[G::kKeys / 16][4];  // operands of wgmma: P, packed

  float m[2];
  float sum[2];  // of the weights in this thread's columns

  __device__ __forceinline__ void start_rows() {
    m[0] = m[1] = kNoReference;
    sum[0] = sum[1] = 0;
  }

  // Scores become weights. True if references of the warp's rows had to rise; then O is to be
  // multiplied by `correction`, which is left alone in rows' `first` key tile, where O is nothing
  // yet. These take the same code as all others once they have a reference: code that seldom runs
  // waits for its instructions.
  template <Pace kPace>
  __device__ __forceinline__ bool weigh(const float (&s)[kScores],
                                        float scale,
                                        bool first,
                                        Weights& weights,
                                        float (&correction)[2]) {
    float c[2];
    if (__builtin_expect(first, 0)) raise(s, scale, true, c);
    form<kPace>(s, scale, weights);
    const bool redo = __any_sync(~0u, ((any_[0] | any_[1]) & kAnyIsTwo) != 0);
    if (__builtin_expect(redo, 0)) {
      raise(s, scale, false, c);
      form<Pace::compilers>(s, scale, weights);
#pragma unroll
      for (int row = 0; row < 2; row++) {
        sum[row] = __fmul_rn(sum[row], c[row]);
        if (!first) correction[row] = c[row];
      }
    }
    sum[0] += tile_sum_[0];
    sum[1] += tile_sum_[1];
    return redo;
  }

 private:
  // Left alone the compiler puts all products first, and the unit that makes exponentials, which
  // takes longest, has nothing to do. Pace::even lets each 16 keys depend on a weight of the 16
  // before, by a zero of which the compiler knows nothing (launches have one layer of blocks).
  template <Pace kPace>
  __device__ __forceinline__ void form(const float (&s)[kScores], float scale, Weights& weights) {
    uint32_t zero = 0;
    if (kPace == Pace::even) asm volatile("mov.u32 %0, %%ctaid.z;" : "=r"(zero));
    float even[2] = {0, 0}, odd[2] = {0, 0}, from[2] = {m[0], m[1]};
    any_[0] = any_[1] = 0;
#pragma unroll
    for (int k = 0; k < G::kKeys / 16; k++) {
      float e[8];
#pragma unroll
      for (int i = 0; i < 8; i++)
        e[i] = exp2_approx(__fmaf_rn(s[k * 8 + i], scale, -from[i >> 1 & 1]));
#pragma unroll
      for (int i = 0; i < 4; i++) {
        const int row = i & 1;
        even[row] += e[i * 2];
        odd[row] += e[i * 2 + 1];
        weights[k][i] = pack16<G::kBf16>(e[i * 2], e[i * 2 + 1]);
        any_[row] |= weights[k][i];
      }
#pragma unroll
      for (int row = 0; row < 2; row++)
        from[row] = __uint_as_float(__float_as_uint(m[row]) | (__float_as_uint(e[row * 2]) & zero));
    }
    tile_sum_[0] = even[0] + odd[0];
    tile_sum_[1] = even[1] + odd[1];
  }

  // New references where they must rise, in a row's `first` key tile where it has any score.
  __device__ __forceinline__ void raise(const float (&s)[kScores],
                                        float scale,
                                        bool first,
                                        float (&correction)[2]) {
#pragma unroll
    for (int row = 0; row < 2; row++) {
      float x = s[row * 2], y = s[row * 2 + 1];
#pragma unroll
      for (int i = 1; i < G::kKeys / 8; i++) {
        x = fmaxf(x, s[i * 4 + row * 2]);
        y = fmaxf(y, s[i * 4 + row * 2 + 1]);
      }
      x = quad_max(fmaxf(x, y));
      const bool up = first ? x > -INFINITY : (quad_or(any_[row]) & kAnyIsTwo) != 0;
      const float raised = up ? __fmaf_rn(x, scale, G::kHeadroom) : m[row];
      correction[row] = exp2_approx(m[row] - raised);
      m[row] = raised;
    }
  }

  uint32_t any_[2];    // the OR of a row's packed weights, of the last `form`
  float tile_sum_[2];  // their sums
};

}  // namespace pagoda::cuda
#endif
