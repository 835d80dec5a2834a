// A thin layer over AVX2 vectors for linear's kernels: kLanes 32-bit lanes, half a panel of rows.
// The same names as in linear_avx512.h; linear_tile.h includes the one that the level has. In
// *_kernels.cpp only.
#pragma once

#include <immintrin.h>
#include <stdint.h>

namespace pagoda::cpu::PAGODA_ISA {

using Ints = __m256i;
using Floats = __m256;
constexpr int kLanes = 8;

[[gnu::always_inline]] inline Ints load_ints(const void* p) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(p));
}
[[gnu::always_inline]] inline Ints all_ints(int32_t x) {
  return _mm256_set1_epi32(x);
}
[[gnu::always_inline]] inline Ints all_bytes(int8_t x) {
  return _mm256_set1_epi8(x);
}
[[gnu::always_inline]] inline Ints bit_and(Ints a, Ints b) {
  return _mm256_and_si256(a, b);
}
[[gnu::always_inline]] inline Ints bit_or(Ints a, Ints b) {
  return _mm256_or_si256(a, b);
}
[[gnu::always_inline]] inline Ints bit_xor(Ints a, Ints b) {
  return _mm256_xor_si256(a, b);
}
[[gnu::always_inline]] inline Ints minus(Ints a, Ints b) {
  return _mm256_sub_epi32(a, b);
}
template <int kBits>
[[gnu::always_inline]] inline Ints left(Ints a) {
  return _mm256_slli_epi32(a, kBits);
}
template <int kBits>
[[gnu::always_inline]] inline Ints right(Ints a) {
  return _mm256_srli_epi32(a, kBits);
}
[[gnu::always_inline]] inline Ints or_and(Ints a, Ints b, Ints c) {
  return bit_or(a, bit_and(b, c));
}
[[gnu::always_inline]] inline Ints add_fifth_bits(Ints codes, const uint8_t* bits) {
  const Ints byte_of =
      _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
  const Ints bit_of = _mm256_set1_epi64x(int64_t(0x8040201008040201));
  const Ints spread = _mm256_shuffle_epi8(all_ints(load<int32_t>(bits)), byte_of);
  const Ints is_set = _mm256_cmpeq_epi8(_mm256_and_si256(spread, bit_of), bit_of);
  return or_and(codes, is_set, all_bytes(16));
}

[[gnu::always_inline]] inline Floats zeros() {
  return _mm256_setzero_ps();
}
[[gnu::always_inline]] inline Floats all_floats(float x) {
  return _mm256_set1_ps(x);
}
[[gnu::always_inline]] inline Floats load_floats(const void* p) {
  return _mm256_loadu_ps(static_cast<const float*>(p));
}
[[gnu::always_inline]] inline void store_floats(float* p, Floats x) {
  _mm256_storeu_ps(p, x);
}
[[gnu::always_inline]] inline Floats to_floats(Ints x) {
  return _mm256_cvtepi32_ps(x);
}
[[gnu::always_inline]] inline Floats as_floats(Ints x) {
  return _mm256_castsi256_ps(x);
}
[[gnu::always_inline]] inline Floats add(Floats a, Floats b) {
  return _mm256_add_ps(a, b);
}
[[gnu::always_inline]] inline Floats mul(Floats a, Floats b) {
  return _mm256_mul_ps(a, b);
}
[[gnu::always_inline]] inline Floats fma(Floats a, Floats b, Floats c) {
  return _mm256_fmadd_ps(a, b, c);
}
[[gnu::always_inline]] inline Floats fnma(Floats a, Floats b, Floats c) {
  return _mm256_fnmadd_ps(a, b, c);
}
[[gnu::always_inline]] inline Floats load_halves(const uint8_t* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
[[gnu::always_inline]] inline Floats load_u8(const uint8_t* p) {
  return to_floats(_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
}
[[gnu::always_inline]] inline Floats load_i8(const uint8_t* p) {
  return to_floats(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
}

}  // namespace pagoda::cpu::PAGODA_ISA
