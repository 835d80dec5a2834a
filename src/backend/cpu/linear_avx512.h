// A thin layer over AVX-512 vectors for linear's kernels: kLanes 32-bit lanes, a whole panel of
// rows. The same names as in linear_avx2.h; linear_tile.h includes the one that the level has. In
// *_kernels.cpp only.
#pragma once

#include <immintrin.h>
#include <stdint.h>

namespace pagoda::cpu::PAGODA_ISA {

using Ints = __m512i;
using Floats = __m512;
constexpr int kLanes = 16;

[[gnu::always_inline]] inline Ints load_ints(const void* p) {
  return _mm512_loadu_si512(p);
}
[[gnu::always_inline]] inline Ints all_ints(int32_t x) {
  return _mm512_set1_epi32(x);
}
[[gnu::always_inline]] inline Ints all_bytes(int8_t x) {
  return _mm512_set1_epi8(x);
}
[[gnu::always_inline]] inline Ints bit_and(Ints a, Ints b) {
  return _mm512_and_si512(a, b);
}
[[gnu::always_inline]] inline Ints bit_or(Ints a, Ints b) {
  return _mm512_or_si512(a, b);
}
[[gnu::always_inline]] inline Ints bit_xor(Ints a, Ints b) {
  return _mm512_xor_si512(a, b);
}
[[gnu::always_inline]] inline Ints minus(Ints a, Ints b) {
  return _mm512_sub_epi32(a, b);
}
template <int kBits>
[[gnu::always_inline]] inline Ints left(Ints a) {
  return _mm512_slli_epi32(a, kBits);
}
template <int kBits>
[[gnu::always_inline]] inline Ints right(Ints a) {
  return _mm512_srli_epi32(a, kBits);
}
// a | (b & c)
[[gnu::always_inline]] inline Ints or_and(Ints a, Ints b, Ints c) {
  return _mm512_ternarylogic_epi32(a, b, c, 0xf8);
}
// Adds 16 to the bytes whose bit is set.
[[gnu::always_inline]] inline Ints add_fifth_bits(Ints codes, const uint8_t* bits) {
  return _mm512_mask_add_epi8(codes, load<uint64_t>(bits), codes, _mm512_set1_epi8(16));
}

[[gnu::always_inline]] inline Floats zeros() {
  return _mm512_setzero_ps();
}
[[gnu::always_inline]] inline Floats all_floats(float x) {
  return _mm512_set1_ps(x);
}
[[gnu::always_inline]] inline Floats load_floats(const void* p) {
  return _mm512_loadu_ps(p);
}
[[gnu::always_inline]] inline void store_floats(float* p, Floats x) {
  _mm512_storeu_ps(p, x);
}
[[gnu::always_inline]] inline Floats to_floats(Ints x) {
  return _mm512_cvtepi32_ps(x);
}
[[gnu::always_inline]] inline Floats as_floats(Ints x) {
  return _mm512_castsi512_ps(x);
}
[[gnu::always_inline]] inline Floats add(Floats a, Floats b) {
  return _mm512_add_ps(a, b);
}
[[gnu::always_inline]] inline Floats mul(Floats a, Floats b) {
  return _mm512_mul_ps(a, b);
}
[[gnu::always_inline]] inline Floats fma(Floats a, Floats b, Floats c) {
  return _mm512_fmadd_ps(a, b, c);
}
[[gnu::always_inline]] inline Floats fnma(Floats a, Floats b, Floats c) {
  return _mm512_fnmadd_ps(a, b, c);
}
[[gnu::always_inline]] inline Floats load_halves(const uint8_t* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
[[gnu::always_inline]] inline Floats load_u8(const uint8_t* p) {
  return to_floats(_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}
[[gnu::always_inline]] inline Floats load_i8(const uint8_t* p) {
  return to_floats(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}

}  // namespace pagoda::cpu::PAGODA_ISA
