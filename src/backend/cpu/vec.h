// Vec: a register of f32 lanes (8 with AVX2, 16 with AVX-512), and exp on it. For *_kernels.cpp
// only: all of it lies in the instruction set's namespace.
//
// Sums run over 4 registers of partial sums that fold in a fixed order, whatever else is in the
// call. exp: Cody-Waite reduction and Cephes' polynomial of degree 7, error below 2 units in the
// last place; 0 below -87.33, saturated above 88.37.
#pragma once

#include <immintrin.h>
#include <stdint.h>

namespace pagoda::cpu::PAGODA_ISA {

#ifdef __AVX512F__

typedef __m512 Vec;
constexpr int64_t kLanes = 16;

static inline Vec splat(float x) {
  return _mm512_set1_ps(x);
}
static inline Vec load(const float* p) {
  return _mm512_loadu_ps(p);
}
static inline void store(float* p, Vec v) {
  _mm512_storeu_ps(p, v);
}
static inline __mmask16 first_lanes(int64_t n) {
  return __mmask16((1u << n) - 1);
}
// The first n < kLanes lanes; the others read as 0 and are not written.
static inline Vec load_part(const float* p, int64_t n) {
  return _mm512_maskz_loadu_ps(first_lanes(n), p);
}
static inline void store_part(float* p, Vec v, int64_t n) {
  _mm512_mask_storeu_ps(p, first_lanes(n), v);
}
static inline Vec fma(Vec a, Vec b, Vec c) {
  return _mm512_fmadd_ps(a, b, c);
}
static inline Vec fnma(Vec a, Vec b, Vec c) {
  return _mm512_fnmadd_ps(a, b, c);
}
static inline Vec min(Vec a, Vec b) {
  return _mm512_min_ps(a, b);
}
static inline Vec max(Vec a, Vec b) {
  return _mm512_max_ps(a, b);
}
static inline Vec absolute(Vec a) {
  return _mm512_abs_ps(a);
}
static inline Vec round_to_int(Vec a) {
  return _mm512_roundscale_ps(a, 8);
}
// a where x < y, else b.
static inline Vec select_less(Vec x, Vec y, Vec a, Vec b) {
  return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, y, _CMP_LT_OQ), b, a);
}
static inline Vec times_two_to(Vec a, Vec n) {
  return _mm512_scalef_ps(a, n);
}
static inline double sum_lanes(Vec v) {
  const __m512d low = _mm512_cvtps_pd(_mm512_castps512_ps256(v));
  const __m512d high = _mm512_cvtps_pd(_mm512_extractf32x8_ps(v, 1));
  return _mm512_reduce_add_pd(_mm512_add_pd(low, high));
}

#else

typedef __m256 Vec;
constexpr int64_t kLanes = 8;

static inline Vec splat(float x) {
  return _mm256_set1_ps(x);
}
static inline Vec load(const float* p) {
  return _mm256_loadu_ps(p);
}
static inline void store(float* p, Vec v) {
  _mm256_storeu_ps(p, v);
}
static inline __m256i first_lanes(int64_t n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(int(n)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
static inline Vec load_part(const float* p, int64_t n) {
  return _mm256_maskload_ps(p, first_lanes(n));
}
static inline void store_part(float* p, Vec v, int64_t n) {
  _mm256_maskstore_ps(p, first_lanes(n), v);
}
static inline Vec fma(Vec a, Vec b, Vec c) {
  return _mm256_fmadd_ps(a, b, c);
}
static inline Vec fnma(Vec a, Vec b, Vec c) {
  return _mm256_fnmadd_ps(a, b, c);
}
static inline Vec min(Vec a, Vec b) {
  return _mm256_min_ps(a, b);
}
static inline Vec max(Vec a, Vec b) {
  return _mm256_max_ps(a, b);
}
static inline Vec absolute(Vec a) {
  return _mm256_andnot_ps(splat(-0.f), a);
}
static inline Vec round_to_int(Vec a) {
  return _mm256_round_ps(a, 8);
}
static inline Vec select_less(Vec x, Vec y, Vec a, Vec b) {
  return _mm256_blendv_ps(b, a, _mm256_cmp_ps(x, y, _CMP_LT_OQ));
}
static inline Vec times_two_to(Vec a, Vec n) {  // n in [-126, 127]
  const __m256i exponent =
      _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23);
  return _mm256_mul_ps(a, _mm256_castsi256_ps(exponent));
}
static inline double sum_lanes(Vec v) {
  const __m256d sums = _mm256_add_pd(_mm256_cvtps_pd(_mm256_castps256_ps128(v)),
                                     _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1)));
  const __m128d pair = _mm_add_pd(_mm256_castpd256_pd128(sums), _mm256_extractf128_pd(sums, 1));
  return _mm_cvtsd_f64(pair) + _mm_cvtsd_f64(_mm_unpackhi_pd(pair, pair));
}

#endif

// `count` lanes: kLanes in the loop over a row, fewer at its end.
static inline Vec load(const float* p, int64_t count) {
  return count == kLanes ? load(p) : load_part(p, count);
}
static inline void store(float* p, Vec v, int64_t count) {
  count == kLanes ? store(p, v) : store_part(p, v, count);
}
template <typename Body>  // void(int64_t i, int64_t count)
static inline void for_row(int64_t n, Body body) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) body(i, kLanes);
  if (i < n) body(i, n - i);
}
// Sum over a row of term(i, count), whose lanes past `count` must be 0.
template <typename Term>  // Vec(int64_t i, int64_t count)
static inline double sum_row(int64_t n, Term term) {
  Vec a = splat(0), b = a, c = a, d = a;
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    a = a + term(i, kLanes);
    b = b + term(i + kLanes, kLanes);
    c = c + term(i + 2 * kLanes, kLanes);
    d = d + term(i + 3 * kLanes, kLanes);
  }
  for (; i + kLanes <= n; i += kLanes) a = a + term(i, kLanes);
  if (i < n) b = b + term(i, n - i);
  return sum_lanes((a + b) + (c + d));
}

static inline Vec exp(Vec x) {
  const Vec lowest = splat(-87.33f);
  const Vec y = max(min(x, splat(88.37f)), lowest);
  const Vec n = round_to_int(y * splat(1.44269504088896341f));
  const Vec r = fnma(n, splat(-2.12194440e-4f), fnma(n, splat(0.693359375f), y));
  Vec p = splat(1.9875691500e-4f);
  p = fma(p, r, splat(1.3981999507e-3f));
  p = fma(p, r, splat(8.3334519073e-3f));
  p = fma(p, r, splat(4.1665795894e-2f));
  p = fma(p, r, splat(1.6666665459e-1f));
  p = fma(p, r, splat(5.0000001201e-1f));
  const Vec e = fma(p, r * r, r + splat(1.f));
  return select_less(x, lowest, splat(0.f), times_two_to(e, n));
}

}  // namespace pagoda::cpu::PAGODA_ISA
