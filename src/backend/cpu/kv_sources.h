// How a page (16 tokens of one KV head) is ordered, and how its bytes become operands of a product.
//
// A Source reads units of kUnitBytes and makes kSteps operands of each: 16 tokens (K) or 16 dims
// (V), times one step of the reduction: one dim (K) or token (V) for products in f32, a pair of
// them for vdpbf16ps. K lies [D / steps][unit], V lies [16 / steps][D / 16][unit]. So lanes are
// tokens in q · k and dims in p · v, and neither needs a horizontal sum.
//   f32, f16   unit = 16 elements, one step
//   bf16       unit = [16][2], the pair of steps interleaved; the same for both products
//   int8       f32: 16 bytes, one step. vdpbf16ps: sign and 7-bit magnitude, 64 bytes = two pairs
//              of steps, in 8-byte turns
//   int4       f32: 16 bytes, nibble j = step j. vdpbf16ps: [16][2] 16-bit words, nibble j of a
//              word = pair j of four. n - 8 is what is multiplied; zero + 8 * scale makes up for it
#pragma once

#include "backend/cpu/lanes.h"

namespace pagoda::cpu::PAGODA_ISA {

// An operand's product with one broadcast 32-bit word, added to acc.
PG_INLINE Lanes multiply_add(Lanes acc, Lanes x, const uint32_t* word) {
  return fma(x, set_all(*reinterpret_cast<const float*>(word)), acc);
}

struct F32Source {
  static constexpr bool kPairs = false;
  static constexpr int kUnitBytes = 64, kSteps = 1;
  using Unit = Lanes;
  static PG_INLINE Unit load_unit(const std::byte* p) {
    return load(reinterpret_cast<const float*>(p));
  }
  PG_INLINE Lanes step(Unit x, int) const { return x; }
};

struct F16Source {
  static constexpr bool kPairs = false;
  static constexpr int kUnitBytes = 32, kSteps = 1;
  using Unit = Lanes;
  static PG_INLINE Unit load_unit(const std::byte* p) { return from_f16(p); }
  PG_INLINE Lanes step(Unit x, int) const { return x; }
};

struct Bf16Source {
  static constexpr bool kPairs = false;
  static constexpr int kUnitBytes = 64, kSteps = 2;
  using Unit = Words;
  static PG_INLINE Unit load_unit(const std::byte* p) { return load_words(p); }
  PG_INLINE Lanes step(Unit x, int j) const { return j ? high_bf16(x) : low_bf16(x); }
};

struct Int8Source {
  static constexpr bool kPairs = false;
  static constexpr int kUnitBytes = 16, kSteps = 1;
  using Unit = Lanes;
  static PG_INLINE Unit load_unit(const std::byte* p) { return from_int8(p); }
  PG_INLINE Lanes step(Unit x, int) const { return x; }
};

struct Int4Source {
  static constexpr bool kPairs = false;
  static constexpr int kUnitBytes = 16, kSteps = 2;
  using Unit = Words;
  static PG_INLINE Unit load_unit(const std::byte* p) { return load_bytes(p); }
  PG_INLINE Lanes step(Unit x, int j) const { return centred_nibble(x, 4 * j); }
};

#ifdef __AVX512BF16__

struct Pairs {
  __m512bh v;
};
PG_INLINE Lanes multiply_add(Lanes acc, Pairs x, const uint32_t* word) {
  return {_mm512_dpbf16_ps(acc.v, x.v, (__m512bh)_mm512_set1_epi32(int(*word)))};
}

struct Bf16Dot {
  static constexpr bool kPairs = true;
  static constexpr int kUnitBytes = 64, kSteps = 1;
  using Unit = Words;
  static PG_INLINE Unit load_unit(const std::byte* p) { return load_words(p); }
  PG_INLINE Pairs step(Unit x, int) const { return {(__m512bh)x.v}; }
};

// bf16 of 0 … 127, low and high bytes apart.
struct Int8DotTable {
  alignas(64) uint8_t low[128], high[128];
  constexpr Int8DotTable() : low{}, high{} {
    for (int n = 1; n < 128; n++) {
      int exponent = 0;
      while (n >> (exponent + 1)) exponent++;
      const int bits = (127 + exponent) << 7 | ((n << (7 - exponent)) & 127);
      low[n] = static_cast<uint8_t>(bits & 255);
      high[n] = static_cast<uint8_t>(bits >> 8);
    }
  }
};
static constexpr Int8DotTable kInt8DotTable;

struct Int8Dot {
  static constexpr bool kPairs = true;
  static constexpr int kUnitBytes = 64, kSteps = 2;
  using Unit = Words;
  __m512i low0 = _mm512_load_si512(kInt8DotTable.low);
  __m512i low1 = _mm512_load_si512(kInt8DotTable.low + 64);
  __m512i high0 = _mm512_load_si512(kInt8DotTable.high);
  __m512i high1 = _mm512_load_si512(kInt8DotTable.high + 64);
  static PG_INLINE Unit load_unit(const std::byte* p) { return load_words(p); }
  PG_INLINE Pairs step(Unit x, int j) const {
    const __m512i low = _mm512_permutex2var_epi8(low0, x.v, low1);
    __m512i high = _mm512_permutex2var_epi8(high0, x.v, high1);
    high = _mm512_ternarylogic_epi32(high, x.v, _mm512_set1_epi8(-128), 0xf8);  // | (x & 0x80)
    return {(__m512bh)(j ? _mm512_unpackhi_epi8(low, high) : _mm512_unpacklo_epi8(low, high))};
  }
};

struct Int4DotTable {
  alignas(64) uint16_t bits[32];  // bf16 of (i & 15) - 8
  constexpr Int4DotTable() : bits{} {
    for (int i = 0; i < 32; i++) {
      const int n = (i & 15) - 8, magnitude = n < 0 ? -n : n;
      int exponent = 0;
      while (magnitude >> (exponent + 1)) exponent++;
      if (n)
        bits[i] = static_cast<uint16_t>((n < 0 ? 0x8000 : 0) | (127 + exponent) << 7 |
                                        ((magnitude << (7 - exponent)) & 127));
    }
  }
};
static constexpr Int4DotTable kInt4DotTable;

struct Int4Dot {
  static constexpr bool kPairs = true;
  static constexpr int kUnitBytes = 64, kSteps = 4;
  using Unit = Words;
  __m512i table = _mm512_load_si512(kInt4DotTable.bits);
  static PG_INLINE Unit load_unit(const std::byte* p) { return load_words(p); }
  PG_INLINE Pairs step(Unit x, int j) const {
    return {(__m512bh)_mm512_permutexvar_epi16(j ? _mm512_srli_epi16(x.v, 4 * j) : x.v, table)};
  }
};

using Bf16Best = Bf16Dot;  // what this level multiplies each stored type with
using Int8Best = Int8Dot;
using Int4Best = Int4Dot;
#else
using Bf16Best = Bf16Source;
using Int8Best = Int8Source;
using Int4Best = Int4Source;
#endif

// The reduction steps of one operand: words of q or p that it takes are one per kDepth elements.
template <class Source>
constexpr int kDepth = Source::kPairs ? 2 : 1;

}  // namespace pagoda::cpu::PAGODA_ISA
