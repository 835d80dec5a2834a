// A thin layer over the vectors of an instruction set, for linear's kernels: kLanes 32-bit lanes, a
// whole panel with AVX-512 and half of one with AVX2. A "column" below is one vector of weight
// rows; `lane` is its first row within its panel. Included in *_kernels.cpp only, once the level is
// known.
#pragma once

#include <immintrin.h>
#include <math.h>

#include "backend/cpu/linear_kernels.h"

namespace pagoda::cpu::PAGODA_ISA {

#define PAGODA_INLINE static inline __attribute__((always_inline))

#if defined(__AVX512F__)

using Ints = __m512i;
using Floats = __m512;
constexpr int kLanes = 16;

PAGODA_INLINE Ints load_ints(const void* p) {
  return _mm512_loadu_si512(p);
}
PAGODA_INLINE Ints all_ints(int32_t x) {
  return _mm512_set1_epi32(x);
}
PAGODA_INLINE Ints all_bytes(int8_t x) {
  return _mm512_set1_epi8(x);
}
PAGODA_INLINE Ints bit_and(Ints a, Ints b) {
  return _mm512_and_si512(a, b);
}
PAGODA_INLINE Ints bit_or(Ints a, Ints b) {
  return _mm512_or_si512(a, b);
}
PAGODA_INLINE Ints bit_xor(Ints a, Ints b) {
  return _mm512_xor_si512(a, b);
}
PAGODA_INLINE Ints minus(Ints a, Ints b) {
  return _mm512_sub_epi32(a, b);
}
template <int kBits>
PAGODA_INLINE Ints left(Ints a) {
  return _mm512_slli_epi32(a, kBits);
}
template <int kBits>
PAGODA_INLINE Ints right(Ints a) {
  return _mm512_srli_epi32(a, kBits);
}
// Adds 16 to the bytes whose bit is set.
PAGODA_INLINE Ints add_fifth_bits(Ints codes, const uint8_t* bits) {
  return _mm512_mask_add_epi8(
      codes, *reinterpret_cast<const uint64_t*>(bits), codes, _mm512_set1_epi8(16));
}

PAGODA_INLINE Floats zeros() {
  return _mm512_setzero_ps();
}
PAGODA_INLINE Floats all_floats(float x) {
  return _mm512_set1_ps(x);
}
PAGODA_INLINE Floats load_floats(const void* p) {
  return _mm512_loadu_ps(p);
}
PAGODA_INLINE void store_floats(float* p, Floats x) {
  _mm512_storeu_ps(p, x);
}
PAGODA_INLINE Floats to_floats(Ints x) {
  return _mm512_cvtepi32_ps(x);
}
PAGODA_INLINE Floats as_floats(Ints x) {
  return _mm512_castsi512_ps(x);
}
PAGODA_INLINE Floats add(Floats a, Floats b) {
  return _mm512_add_ps(a, b);
}
PAGODA_INLINE Floats mul(Floats a, Floats b) {
  return _mm512_mul_ps(a, b);
}
PAGODA_INLINE Floats fma(Floats a, Floats b, Floats c) {
  return _mm512_fmadd_ps(a, b, c);
}
PAGODA_INLINE Floats fnma(Floats a, Floats b, Floats c) {
  return _mm512_fnmadd_ps(a, b, c);
}
PAGODA_INLINE Floats load_halves(const uint8_t* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
PAGODA_INLINE Floats load_u8(const uint8_t* p) {
  return to_floats(_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}
PAGODA_INLINE Floats load_i8(const uint8_t* p) {
  return to_floats(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}

#else

using Ints = __m256i;
using Floats = __m256;
constexpr int kLanes = 8;

PAGODA_INLINE Ints load_ints(const void* p) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(p));
}
PAGODA_INLINE Ints all_ints(int32_t x) {
  return _mm256_set1_epi32(x);
}
PAGODA_INLINE Ints all_bytes(int8_t x) {
  return _mm256_set1_epi8(x);
}
PAGODA_INLINE Ints bit_and(Ints a, Ints b) {
  return _mm256_and_si256(a, b);
}
PAGODA_INLINE Ints bit_or(Ints a, Ints b) {
  return _mm256_or_si256(a, b);
}
PAGODA_INLINE Ints bit_xor(Ints a, Ints b) {
  return _mm256_xor_si256(a, b);
}
PAGODA_INLINE Ints minus(Ints a, Ints b) {
  return _mm256_sub_epi32(a, b);
}
template <int kBits>
PAGODA_INLINE Ints left(Ints a) {
  return _mm256_slli_epi32(a, kBits);
}
template <int kBits>
PAGODA_INLINE Ints right(Ints a) {
  return _mm256_srli_epi32(a, kBits);
}
PAGODA_INLINE Ints add_fifth_bits(Ints codes, const uint8_t* bits) {
  const Ints byte_of =
      _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
  const Ints bit_of = _mm256_set1_epi64x(int64_t(0x8040201008040201));
  const Ints spread =
      _mm256_shuffle_epi8(all_ints(*reinterpret_cast<const int32_t*>(bits)), byte_of);
  const Ints is_set = _mm256_cmpeq_epi8(_mm256_and_si256(spread, bit_of), bit_of);
  return bit_or(codes, bit_and(is_set, all_bytes(16)));
}

PAGODA_INLINE Floats zeros() {
  return _mm256_setzero_ps();
}
PAGODA_INLINE Floats all_floats(float x) {
  return _mm256_set1_ps(x);
}
PAGODA_INLINE Floats load_floats(const void* p) {
  return _mm256_loadu_ps(static_cast<const float*>(p));
}
PAGODA_INLINE void store_floats(float* p, Floats x) {
  _mm256_storeu_ps(p, x);
}
PAGODA_INLINE Floats to_floats(Ints x) {
  return _mm256_cvtepi32_ps(x);
}
PAGODA_INLINE Floats as_floats(Ints x) {
  return _mm256_castsi256_ps(x);
}
PAGODA_INLINE Floats add(Floats a, Floats b) {
  return _mm256_add_ps(a, b);
}
PAGODA_INLINE Floats mul(Floats a, Floats b) {
  return _mm256_mul_ps(a, b);
}
PAGODA_INLINE Floats fma(Floats a, Floats b, Floats c) {
  return _mm256_fmadd_ps(a, b, c);
}
PAGODA_INLINE Floats fnma(Floats a, Floats b, Floats c) {
  return _mm256_fnmadd_ps(a, b, c);
}
PAGODA_INLINE Floats load_halves(const uint8_t* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
PAGODA_INLINE Floats load_u8(const uint8_t* p) {
  return to_floats(_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
}
PAGODA_INLINE Floats load_i8(const uint8_t* p) {
  return to_floats(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
}

#endif

constexpr int kColumns = 2;  // vectors of weight rows in a tile
constexpr int kUnitPanels = kColumns * kLanes / kPanelRows;
constexpr int kUnitRows = kUnitPanels * kPanelRows;

// Column `column` of a tile: which panel, and its first row there.
constexpr int panel_of(int column) {
  return column * kLanes / kPanelRows;
}
constexpr int lane_of(int column) {
  return column * kLanes % kPanelRows;
}

// out = softcap(scale * (sums + bias)) + residual for one row of a tile; `rows` of it exist.
PAGODA_INLINE void finish_row(const Floats (&sums)[kColumns],
                              const PanelProduct& a,
                              int64_t row,
                              int64_t token) {
  float* out = a.out + token * a.out_stride + row;
  const float* bias = a.bias != nullptr ? a.bias + row : nullptr;
  const float* residual =
      a.residual != nullptr ? a.residual + token * a.residual_stride + row : nullptr;
  if (a.num_rows - row >= kUnitRows && a.softcap == 0.f) {
    for (int c = 0; c < kColumns; c++) {
      Floats y = sums[c];
      if (bias != nullptr) y = add(y, load_floats(bias + c * kLanes));
      y = mul(y, all_floats(a.scale));
      if (residual != nullptr) y = add(y, load_floats(residual + c * kLanes));
      store_floats(out + c * kLanes, y);
    }
    return;
  }
  float y[kUnitRows];
  for (int c = 0; c < kColumns; c++) store_floats(y + c * kLanes, sums[c]);
  const int64_t count = a.num_rows - row < kUnitRows ? a.num_rows - row : kUnitRows;
  for (int64_t i = 0; i < count; i++) {
    float v = y[i];
    if (bias != nullptr) v += bias[i];
    v *= a.scale;
    if (a.softcap > 0.f) v = a.softcap * tanhf(v / a.softcap);
    if (residual != nullptr) v += residual[i];
    out[i] = v;
  }
}

// Runs Tile<1 … kMaxRows>::run over all rows in near-equal tiles, for one unit of panels.
template <template <int> class Tile, int kMaxRows>
PAGODA_INLINE void all_tiles(const PanelProduct& a,
                             const uint8_t* const (&panels)[2],
                             int64_t row) {
  static_assert(kMaxRows == 4 || kMaxRows == 6);
  const int64_t tiles = (a.num_tokens + kMaxRows - 1) / kMaxRows;
  int64_t token = 0;
  for (int64_t i = 0; i < tiles; i++) {
    const int64_t end = a.num_tokens * (i + 1) / tiles;
    switch (end - token) {
      case 1:
        Tile<1>::run(a, panels, row, token);
        break;
      case 2:
        Tile<2>::run(a, panels, row, token);
        break;
      case 3:
        Tile<3>::run(a, panels, row, token);
        break;
      case 4:
        Tile<4>::run(a, panels, row, token);
        break;
      case 5:
        if constexpr (kMaxRows == 6) Tile<5>::run(a, panels, row, token);
        break;
      default:
        if constexpr (kMaxRows == 6) Tile<6>::run(a, panels, row, token);
        break;
    }
    token = end;
  }
}

template <template <int> class Tile, int kMaxRows>
PAGODA_INLINE void all_units(const PanelProduct& a) {
  const int64_t panel_bytes = a.layout.panel_bytes;
  for (int64_t row = 0; row < a.num_rows; row += kUnitRows) {
    const uint8_t* first = a.panels + row / kPanelRows * panel_bytes;
    const bool has_second = kUnitPanels == 2 && a.num_rows - row > kPanelRows;
    const uint8_t* const panels[2] = {first, has_second ? first + panel_bytes : first};
    all_tiles<Tile, kMaxRows>(a, panels, row);
  }
}

}  // namespace pagoda::cpu::PAGODA_ISA
