// Lanes: 16 floats, one per token of a page (or per head dimension), in one AVX-512 register or two
// AVX2 ones, and the few operations that attention needs. Kernels only: everything is inside the
// instruction set's namespace and inlined.
#pragma once

#include <immintrin.h>
#include <stdint.h>

#include <cstddef>

#include "backend/cpu/attention_args.h"

namespace pagoda::cpu::PAGODA_ISA {

#define PG_INLINE inline __attribute__((always_inline))

constexpr float kLog2E = 1.4426950408889634f;
constexpr float kLn2 = 0.6931471805599453f;
// Below any score, and still far from the end of f32 when subtracted: a maximum over no keys, and a
// key that must not be seen.
constexpr float kFloor = -1e38f;
constexpr float kMasked = -2e38f;

#ifdef __AVX512F__

struct Lanes {
  __m512 v;
};
PG_INLINE Lanes set_all(float x) {
  return {_mm512_set1_ps(x)};
}
PG_INLINE Lanes load(const float* p) {
  return {_mm512_loadu_ps(p)};
}
PG_INLINE void store(float* p, Lanes x) {
  _mm512_storeu_ps(p, x.v);
}
PG_INLINE Lanes operator+(Lanes a, Lanes b) {
  return {_mm512_add_ps(a.v, b.v)};
}
PG_INLINE Lanes operator-(Lanes a, Lanes b) {
  return {_mm512_sub_ps(a.v, b.v)};
}
PG_INLINE Lanes operator*(Lanes a, Lanes b) {
  return {_mm512_mul_ps(a.v, b.v)};
}
PG_INLINE Lanes operator/(Lanes a, Lanes b) {
  return {_mm512_div_ps(a.v, b.v)};
}
PG_INLINE Lanes fma(Lanes a, Lanes b, Lanes c) {
  return {_mm512_fmadd_ps(a.v, b.v, c.v)};
}
PG_INLINE Lanes max(Lanes a, Lanes b) {
  return {_mm512_max_ps(a.v, b.v)};
}
PG_INLINE Lanes min(Lanes a, Lanes b) {
  return {_mm512_min_ps(a.v, b.v)};
}
PG_INLINE Lanes abs(Lanes a) {
  return {_mm512_abs_ps(a.v)};
}
// The sign of `sign` on the non-negative x.
PG_INLINE Lanes with_sign(Lanes x, Lanes sign) {
  return {_mm512_or_ps(x.v, _mm512_and_ps(sign.v, _mm512_set1_ps(-0.f)))};
}
// x where first <= index < end, index counting from `from`; kMasked elsewhere.
PG_INLINE Lanes keep_range(Lanes x, int from, int first, int end) {
  const __m512i index =
      _mm512_add_epi32(_mm512_set1_epi32(from),
                       _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
  const __mmask16 seen = _mm512_cmpge_epi32_mask(index, _mm512_set1_epi32(first)) &
                         _mm512_cmplt_epi32_mask(index, _mm512_set1_epi32(end));
  return {_mm512_mask_blend_ps(seen, _mm512_set1_ps(kMasked), x.v)};
}
PG_INLINE __m512 fraction(__m512 t) {
  return _mm512_reduce_ps(t, 0x09);
}  // t - floor(t)
PG_INLINE Lanes times_power(Lanes p, Lanes t) {
  return {_mm512_scalef_ps(p.v, t.v)};
}
// 2^t for t <= 0, relative error 2e-7; 2^0 is exactly 1; very negative t gives +0.
PG_INLINE Lanes exp2_of(Lanes t) {
  const __m512 f = fraction(t.v);
  __m512 p = _mm512_set1_ps(0.0018671350553631783f);
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0.009017015807330608f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0.055799927562475204f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0.24016444385051727f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0.6931512951850891f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(1.f));
  return {_mm512_scalef_ps(p, t.v)};
}
// The same to 1e-4: for weights that are rounded to bf16 next.
PG_INLINE Lanes exp2_rough(Lanes t) {
  const __m512 f = fraction(t.v);
  __m512 p = _mm512_set1_ps(0.0770673081278801f);
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0.22764453291893005f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0.6951169967651367f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(1.f));
  return {_mm512_scalef_ps(p, t.v)};
}
PG_INLINE __m256 halves_sum(Lanes a) {
  return _mm256_add_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
}
PG_INLINE __m256 halves_max(Lanes a) {
  return _mm256_max_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
}
PG_INLINE Lanes from_f16(const std::byte* p) {
  return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
PG_INLINE void to_f16(uint16_t* p, Lanes x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                      _mm512_cvtps_ph(x.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
PG_INLINE void to_int32(int32_t* p, Lanes x) {  // to nearest even
  _mm512_storeu_si512(p, _mm512_cvtps_epi32(x.v));
}

// 16 32-bit words of stored bytes, and what they mean.
struct Words {
  __m512i v;
};
PG_INLINE Words load_words(const std::byte* p) {
  return {_mm512_loadu_si512(p)};
}
PG_INLINE Words load_bytes(const std::byte* p) {
  return {_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
PG_INLINE Lanes low_bf16(Words x) {
  return {_mm512_castsi512_ps(_mm512_slli_epi32(x.v, 16))};
}
PG_INLINE Lanes high_bf16(Words x) {
  return {_mm512_castsi512_ps(_mm512_and_si512(x.v, _mm512_set1_epi32(int(0xffff0000))))};
}
PG_INLINE Lanes from_int8(const std::byte* p) {
  return {_mm512_cvtepi32_ps(
      _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))))};
}
PG_INLINE Lanes centred_nibble(Words x, int shift) {  // ((word >> shift) & 15) - 8
  const __m512 table = _mm512_setr_ps(-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7);
  return {_mm512_permutexvar_ps(shift ? _mm512_srli_epi32(x.v, shift) : x.v, table)};
}

#else  // AVX2

struct Lanes {
  __m256 lo, hi;
};
PG_INLINE Lanes set_all(float x) {
  return {_mm256_set1_ps(x), _mm256_set1_ps(x)};
}
PG_INLINE Lanes load(const float* p) {
  return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}
PG_INLINE void store(float* p, Lanes x) {
  _mm256_storeu_ps(p, x.lo);
  _mm256_storeu_ps(p + 8, x.hi);
}
PG_INLINE Lanes operator+(Lanes a, Lanes b) {
  return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)};
}
PG_INLINE Lanes operator-(Lanes a, Lanes b) {
  return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)};
}
PG_INLINE Lanes operator*(Lanes a, Lanes b) {
  return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)};
}
PG_INLINE Lanes operator/(Lanes a, Lanes b) {
  return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)};
}
PG_INLINE Lanes fma(Lanes a, Lanes b, Lanes c) {
  return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}
PG_INLINE Lanes max(Lanes a, Lanes b) {
  return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)};
}
PG_INLINE Lanes min(Lanes a, Lanes b) {
  return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)};
}
PG_INLINE Lanes abs(Lanes a) {
  const __m256 sign = _mm256_set1_ps(-0.f);
  return {_mm256_andnot_ps(sign, a.lo), _mm256_andnot_ps(sign, a.hi)};
}
PG_INLINE Lanes with_sign(Lanes x, Lanes s) {
  const __m256 sign = _mm256_set1_ps(-0.f);
  return {_mm256_or_ps(x.lo, _mm256_and_ps(s.lo, sign)),
          _mm256_or_ps(x.hi, _mm256_and_ps(s.hi, sign))};
}
PG_INLINE __m256 keep_range8(__m256 x, int from, int first, int end) {
  const __m256i index =
      _mm256_add_epi32(_mm256_set1_epi32(from), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  const __m256i unseen = _mm256_or_si256(_mm256_cmpgt_epi32(_mm256_set1_epi32(first), index),
                                         _mm256_cmpgt_epi32(index, _mm256_set1_epi32(end - 1)));
  return _mm256_blendv_ps(x, _mm256_set1_ps(kMasked), _mm256_castsi256_ps(unseen));
}
PG_INLINE Lanes keep_range(Lanes x, int from, int first, int end) {
  return {keep_range8(x.lo, from, first, end), keep_range8(x.hi, from + 8, first, end)};
}
PG_INLINE __m256 exp2_of8(__m256 t) {
  t = _mm256_max_ps(t, _mm256_set1_ps(-127.f));
  const __m256 n = _mm256_floor_ps(t), f = _mm256_sub_ps(t, n);
  __m256 p = _mm256_set1_ps(0.0018671350553631783f);
  p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(0.009017015807330608f));
  p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(0.055799927562475204f));
  p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(0.24016444385051727f));
  p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(0.6931512951850891f));
  p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(1.f));
  const __m256i e =
      _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23);
  return _mm256_mul_ps(p, _mm256_castsi256_ps(e));
}
// 2^t for t <= 0, relative error 2e-7; 2^0 is exactly 1; t below -126 gives +0.
PG_INLINE Lanes exp2_of(Lanes t) {
  return {exp2_of8(t.lo), exp2_of8(t.hi)};
}
PG_INLINE __m256 halves_sum(Lanes a) {
  return _mm256_add_ps(a.lo, a.hi);
}
PG_INLINE __m256 halves_max(Lanes a) {
  return _mm256_max_ps(a.lo, a.hi);
}
PG_INLINE Lanes from_f16(const std::byte* p) {
  const auto* at = reinterpret_cast<const __m128i*>(p);
  return {_mm256_cvtph_ps(_mm_loadu_si128(at)), _mm256_cvtph_ps(_mm_loadu_si128(at + 1))};
}
PG_INLINE void to_f16(uint16_t* p, Lanes x) {
  auto* at = reinterpret_cast<__m128i*>(p);
  _mm_storeu_si128(at, _mm256_cvtps_ph(x.lo, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  _mm_storeu_si128(at + 1, _mm256_cvtps_ph(x.hi, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
PG_INLINE void to_int32(int32_t* p, Lanes x) {  // to nearest even
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_cvtps_epi32(x.lo));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 8), _mm256_cvtps_epi32(x.hi));
}

struct Words {
  __m256i lo, hi;
};
PG_INLINE Words load_words(const std::byte* p) {
  const auto* at = reinterpret_cast<const __m256i*>(p);
  return {_mm256_loadu_si256(at), _mm256_loadu_si256(at + 1)};
}
PG_INLINE Words load_bytes(const std::byte* p) {
  const auto* at = reinterpret_cast<const __m128i*>(p);
  const auto* next = reinterpret_cast<const __m128i*>(p + 8);
  return {_mm256_cvtepu8_epi32(_mm_loadl_epi64(at)), _mm256_cvtepu8_epi32(_mm_loadl_epi64(next))};
}
PG_INLINE Lanes low_bf16(Words x) {
  return {_mm256_castsi256_ps(_mm256_slli_epi32(x.lo, 16)),
          _mm256_castsi256_ps(_mm256_slli_epi32(x.hi, 16))};
}
PG_INLINE Lanes high_bf16(Words x) {
  const __m256i high = _mm256_set1_epi32(int(0xffff0000));
  return {_mm256_castsi256_ps(_mm256_and_si256(x.lo, high)),
          _mm256_castsi256_ps(_mm256_and_si256(x.hi, high))};
}
PG_INLINE Lanes from_int8(const std::byte* p) {
  const auto* at = reinterpret_cast<const __m128i*>(p);
  const auto* next = reinterpret_cast<const __m128i*>(p + 8);
  return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(at))),
          _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(next)))};
}
PG_INLINE __m256 centred_nibble8(__m256i x, int shift) {
  const __m256i n =
      _mm256_and_si256(shift ? _mm256_srli_epi32(x, shift) : x, _mm256_set1_epi32(15));
  return _mm256_cvtepi32_ps(_mm256_sub_epi32(n, _mm256_set1_epi32(8)));
}
PG_INLINE Lanes centred_nibble(Words x, int shift) {  // ((word >> shift) & 15) - 8
  return {centred_nibble8(x.lo, shift), centred_nibble8(x.hi, shift)};
}

#endif

// One fixed tree.
PG_INLINE float sum_of(Lanes a) {
  const __m256 v = halves_sum(a);
  __m128 b = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  b = _mm_add_ps(b, _mm_movehl_ps(b, b));
  return _mm_cvtss_f32(_mm_add_ss(b, _mm_movehdup_ps(b)));
}
PG_INLINE float max_of(Lanes a) {
  const __m256 v = halves_max(a);
  __m128 b = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  b = _mm_max_ps(b, _mm_movehl_ps(b, b));
  return _mm_cvtss_f32(_mm_max_ss(b, _mm_movehdup_ps(b)));
}
// tanh by 2^x: (1 - e) / (1 + e), e = 2^(-2 |x| log2 e); absolute error 2e-7.
PG_INLINE Lanes tanh_of(Lanes x) {
  const Lanes one = set_all(1.f), e = exp2_of(abs(x) * set_all(-2.f * kLog2E));
  return with_sign((one - e) / (one + e), x);
}

}  // namespace pagoda::cpu::PAGODA_ISA
