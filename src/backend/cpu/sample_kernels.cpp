#include "backend/cpu/sample_kernels.h"

#include <math.h>

#include "backend/cpu/vec.h"

namespace pagoda::cpu::PAGODA_ISA {

// Bit i: the comparison holds in lane i.
#ifdef __AVX512F__
static inline uint32_t lanes_greater(Vec a, Vec b) {
  return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ);
}
static inline uint32_t lanes_at_least(Vec a, Vec b) {
  return _mm512_cmp_ps_mask(a, b, _CMP_GE_OQ);
}
static inline uint32_t lanes_nan(Vec a) {
  return _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q);
}
static inline void add_doubles(Vec v, double* sums) {
  const __m512d low = _mm512_cvtps_pd(_mm512_castps512_ps256(v));
  const __m512d high = _mm512_cvtps_pd(_mm512_extractf32x8_ps(v, 1));
  _mm512_store_pd(sums, _mm512_add_pd(_mm512_load_pd(sums), low));
  _mm512_store_pd(sums + 8, _mm512_add_pd(_mm512_load_pd(sums + 8), high));
}
#else
static inline uint32_t lanes_greater(Vec a, Vec b) {
  return _mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_GT_OQ));
}
static inline uint32_t lanes_at_least(Vec a, Vec b) {
  return _mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_GE_OQ));
}
static inline uint32_t lanes_nan(Vec a) {
  return _mm256_movemask_ps(_mm256_cmp_ps(a, a, _CMP_UNORD_Q));
}
static inline void add_doubles(Vec v, double* sums) {
  const __m256d low = _mm256_cvtps_pd(_mm256_castps256_ps128(v));
  const __m256d high = _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1));
  _mm256_store_pd(sums, _mm256_add_pd(_mm256_load_pd(sums), low));
  _mm256_store_pd(sums + 4, _mm256_add_pd(_mm256_load_pd(sums + 4), high));
}
#endif

// The largest first, without ids; then the first place where it stands: two fast passes.
static Peak peak(const float* x, int64_t n) {
  Vec best = splat(-INFINITY), other = best;
  uint32_t nan = 0;
  int64_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    const Vec a = load(x + i), b = load(x + i + kLanes);
    nan |= lanes_nan(a) | lanes_nan(b);
    best = max(a, best);
    other = max(b, other);
  }
  alignas(64) float lanes[kLanes];
  store(lanes, max(best, other));
  float largest = lanes[0];
  for (int64_t lane = 1; lane < kLanes; lane++)
    if (lanes[lane] > largest) largest = lanes[lane];
  for (; i < n; i++) {
    if (x[i] != x[i]) nan = 1;
    if (x[i] > largest) largest = x[i];
  }
  int64_t id = 0;
  for (; id + kLanes <= n; id += kLanes)
    if (const uint32_t found = lanes_at_least(load(x + id), splat(largest))) {
      id += __builtin_ctz(found);
      break;
    }
  while (id < n - 1 && !(x[id] >= largest)) id++;
  return {largest, int32_t(id), nan != 0};
}

// Terms in f32, their sum in f64: lane by lane in order, then the lanes in order.
static double weights(const float* x, int64_t n, float peak, float factor, float* weights) {
  alignas(64) double sums[kLanes] = {};
  const Vec top = splat(peak), by = splat(factor);
  for_row(n, [&](int64_t i, int64_t count) {
    Vec w = exp((load(x + i, count) - top) * by);
    if (count != kLanes) {
      alignas(64) float part[kLanes] = {};
      store_part(part, w, count);
      w = load(part);
    }
    if (weights) store(weights + i, w, count);
    add_doubles(w, sums);
  });
  double sum = 0;
  for (int64_t lane = 0; lane < kLanes; lane++) sum += sums[lane];
  return sum;
}

static int64_t collect(const float* x, int64_t n, float low, float high, int32_t* ids) {
  int64_t found = 0, i = 0;
  const Vec from = splat(low), below = splat(high);
  for (; i + kLanes <= n; i += kLanes) {
    const Vec v = load(x + i);
    for (uint32_t lanes = lanes_at_least(v, from) & lanes_greater(below, v); lanes != 0;
         lanes &= lanes - 1)
      ids[found++] = int32_t(i + __builtin_ctz(lanes));
  }
  for (; i < n; i++)
    if (x[i] >= low && x[i] < high) ids[found++] = int32_t(i);
  return found;
}

void fill(SampleKernels& kernels) {
  kernels = {.peak = peak, .weights = weights, .collect = collect};
}

}  // namespace pagoda::cpu::PAGODA_ISA
