// Products with block-quantised weights.
//
// Computes: out[t, r] = Σ_blocks (d_x scale) Σ_32 q code' (+ d_x Σq min), code' = code - bias; the
// inner sum is exact in int32, the outer one chain of fused multiply-adds in rising k. In: panels
// as in panel_format.h, rows of ActivationBlock. A tile is 1 to 6 rows by two vectors of weight
// rows. Bytes: weights once per call, rows (1.5 bytes a column) once per unit of panels; 2 T R K
// operations. Must equal backend/reference's linear but for the rounding of rows to int8.
//
// Unsigned codes meet signed rows in vpdpbusd without sign tricks: the bias is taken out by
// starting the accumulator at -bias * Σq. Without VNNI, vpmaddubsw saturates at 16 bits: codes of
// up to 6 bits are safe (2 * 63 * 127 * 2 products a lane), whole bytes go through |w| and sign(q,
// w), which needs rows without -128; they have none.
#include "backend/cpu/linear_tile.h"

namespace pagoda::cpu::PAGODA_ISA {
namespace {

#if defined(__AVX512VNNI__) || defined(__AVXVNNI__)
constexpr bool kVnni = true;
#else
constexpr bool kVnni = false;
#endif
#if defined(__AVX512F__)
constexpr int kMaxRows = 6;
#else
constexpr int kMaxRows = 4;
#endif
constexpr int64_t kPrefetchBytes = 2048;

// Without VNNI: 4 products of u8 and s8 summed into each 32-bit lane, for codes that fit.
[[gnu::always_inline, maybe_unused]] inline Ints dot_pair(
    Ints sum, Ints w0, Ints x0, Ints w1, Ints x1) {
#if defined(__AVX512F__)
  const Ints words = _mm512_add_epi16(_mm512_maddubs_epi16(w0, x0), _mm512_maddubs_epi16(w1, x1));
  return _mm512_add_epi32(sum, _mm512_madd_epi16(words, _mm512_set1_epi16(1)));
#else
  const Ints words = _mm256_add_epi16(_mm256_maddubs_epi16(w0, x0), _mm256_maddubs_epi16(w1, x1));
  return _mm256_add_epi32(sum, _mm256_madd_epi16(words, _mm256_set1_epi16(1)));
#endif
}
// The same for signed bytes.
[[gnu::always_inline, maybe_unused]] inline Ints dot_signed(Ints sum, Ints w, Ints x) {
#if defined(__AVX512F__)
  const Ints signed_x = _mm512_mask_sub_epi8(x, _mm512_movepi8_mask(w), _mm512_setzero_si512(), x);
  const Ints words = _mm512_maddubs_epi16(_mm512_abs_epi8(w), signed_x);
  return _mm512_add_epi32(sum, _mm512_madd_epi16(words, _mm512_set1_epi16(1)));
#else
  const Ints words = _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
  return _mm256_add_epi32(sum, _mm256_madd_epi16(words, _mm256_set1_epi16(1)));
#endif
}
#if defined(__AVX512VNNI__)
[[gnu::always_inline, maybe_unused]] inline Ints dot(Ints sum, Ints w, Ints x) {
  return _mm512_dpbusd_epi32(sum, w, x);
}
#elif defined(__AVXVNNI__)
[[gnu::always_inline, maybe_unused]] inline Ints dot(Ints sum, Ints w, Ints x) {
  return _mm256_dpbusd_avx_epi32(sum, w, x);
}
#else
[[gnu::always_inline, maybe_unused]] inline Ints dot(Ints sum, Ints, Ints) {
  return sum;
}  // not called
#endif

// Weight vector j (columns 4 j …) of a block, from its first row's bytes at `block`.
template <DType kType>
[[gnu::always_inline]] inline Ints codes(const uint8_t* block, int lane, int j) {
  constexpr int kBits = panel_format(kType).code_bits;
  const uint8_t* lanes = block + 4 * lane;
  if constexpr (kBits == 8) {
    const Ints w = load_ints(lanes + 64 * j);
    return kVnni ? w : bit_xor(w, all_bytes(int8_t(0x80)));
  } else {
    const Ints both = load_ints(lanes + 64 * (j & 3));
    const Ints low = bit_and(j < 4 ? both : right<4>(both), all_bytes(15));
    if constexpr (kBits == 5) return add_fifth_bits(low, block + 256 + 8 * j + lane / 2);
    if constexpr (kBits == 6) {
      const Ints all = load_ints(lanes + 256 + 64 * (j >> 2));
      const int i = j & 3;
      const Ints at_4 = i == 0   ? left<4>(all)
                        : i == 1 ? left<2>(all)
                        : i == 2 ? all
                                 : right<2>(all);
      return or_and(low, at_4, all_bytes(0x30));
    }
    return low;
  }
}

// The scales of a block's rows; q6_k has one for each half.
template <DType kType>
[[gnu::always_inline]] inline Floats scales(const uint8_t* record,
                                            const uint8_t* sub,
                                            int lane,
                                            int half) {
  const Floats d = load_halves(record + 2 * lane);
  if constexpr (kType == DType::q6_k) return mul(d, load_i8(sub + 16 * half + lane));
  if constexpr (panel_format(kType).sub_bytes > 0) return mul(d, load_u8(sub + lane));
  return d;
}
template <DType kType>
[[gnu::always_inline]] inline Floats minima(const uint8_t* record, const uint8_t* sub, int lane) {
  const Floats min = load_halves(record + 32 + 2 * lane);
  return panel_format(kType).sub_bytes > 0 ? mul(min, load_u8(sub + 16 + lane)) : min;
}

template <DType kType, int kRows>
struct Tile {
  static constexpr PanelFormat kFormat = panel_format(kType);
  static constexpr int kHalves = kType == DType::q6_k ? 2 : 1;
  static constexpr int kGroups = 8 / kHalves;  // with one scale
  static constexpr int kRecordBytes =
      kFormat.head_bytes + kFormat.blocks_per_record * kFormat.sub_bytes;
  // Taken out of an accumulator's start; signed bytes need none.
  static constexpr int kBiasBits = kFormat.bias == 128  ? (kVnni ? 7 : 0)
                                   : kFormat.bias == 32 ? 5
                                   : kFormat.bias == 16 ? 4
                                   : kFormat.bias == 8  ? 3
                                                        : 0;

  static void run(const PanelProduct& a,
                  const uint8_t* const (&panels)[2],
                  int64_t row,
                  int64_t token) {
    const auto* x = reinterpret_cast<const ActivationBlock*>(a.x + token * a.x_row_bytes);
    const int64_t stride = a.x_row_bytes / int64_t{sizeof(ActivationBlock)};
    const PanelLayout layout = a.layout;
    Floats sums[kRows][kColumns];
    for (int r = 0; r < kRows; r++)
      for (int c = 0; c < kColumns; c++) sums[r][c] = zeros();
    const uint8_t* record[2] = {panels[0], panels[1]};
    const uint8_t* block[2] = {panels[0] + layout.scale_bytes, panels[1] + layout.scale_bytes};
    const uint8_t* last[2] = {panels[0] + layout.panel_bytes - kPrefetchBytes,
                              panels[1] + layout.panel_bytes - kPrefetchBytes};
    const int64_t next_unit = (kUnitPanels - 1) * layout.panel_bytes;
    for (int64_t b = 0; b < a.cols / kBlockCols; b += kFormat.blocks_per_record) {
      for (int s = 0; s < kFormat.blocks_per_record; s++) {
        if constexpr (kRows <= 4)
          for (int p = 0; p < kUnitPanels; p++)
            prefetch(block[p] + kPrefetchBytes + (block[p] < last[p] ? 0 : next_unit));
        for (int half = 0; half < kHalves; half++)
          half_block(sums, record, block, s, half, x, stride);
        for (int p = 0; p < kUnitPanels; p++) block[p] += kFormat.code_bytes;
        x++;
      }
      for (int p = 0; p < kUnitPanels; p++) record[p] += kRecordBytes;
    }
    for (int r = 0; r < kRows; r++) finish_row(sums[r], a, row, token + r);
  }

  [[gnu::always_inline]] static inline void prefetch(const uint8_t* p) {
    for (int i = 0; i < kFormat.code_bytes; i += 64)
      _mm_prefetch(reinterpret_cast<const char*>(p + i), _MM_HINT_T0);
  }

  // One block (of q6_k, a half): integer dot products, then their share of the float sums.
  [[gnu::always_inline]] static inline void half_block(Floats (&sums)[kRows][kColumns],
                                                       const uint8_t* const (&record)[2],
                                                       const uint8_t* const (&block)[2],
                                                       int s,
                                                       int half,
                                                       const ActivationBlock* x,
                                                       int64_t stride) {
    Ints dots[kRows][kColumns];
    for (int r = 0; r < kRows; r++) {
      Ints start = all_ints(0);
      if constexpr (kBiasBits > 0) {
        const ActivationBlock& y = x[r * stride];
        if constexpr (kHalves == 1) {
          start = all_ints(y.negative_sum);
        } else {
          start = all_ints(y.negative_sum_low);
          if (half == 1) start = minus(all_ints(y.negative_sum), start);
        }
        start = left<kBiasBits>(start);
      }
      for (int c = 0; c < kColumns; c++) dots[r][c] = start;
    }
    _Pragma("GCC unroll 4") for (int i = 0; i < kGroups / 2; i++) {
      // Two groups; of nibbles the two that share their bytes.
      const int j0 = kHalves == 2 ? 4 * half + 2 * i : kFormat.code_bits == 8 ? 2 * i : i;
      const int j1 = kHalves == 2 || kFormat.code_bits == 8 ? j0 + 1 : j0 + 4;
      two_groups(dots, block, j0, j1, x, stride);
    }
    for (int c = 0; c < kColumns; c++) {
      const uint8_t* head = record[panel_of(c)];
      const uint8_t* sub = head + kFormat.head_bytes + s * kFormat.sub_bytes;
      const Floats scale = scales<kType>(head, sub, lane_of(c), half);
      for (int r = 0; r < kRows; r++)
        sums[r][c] =
            fma(to_floats(dots[r][c]), mul(scale, all_floats(x[r * stride].d)), sums[r][c]);
      if constexpr (kFormat.has_min) {
        const Floats min = minima<kType>(head, sub, lane_of(c));
        for (int r = 0; r < kRows; r++) {
          const Floats sum = all_floats(x[r * stride].d_sum);
          sums[r][c] =
              kFormat.sub_bytes > 0 ? fnma(min, sum, sums[r][c]) : fma(min, sum, sums[r][c]);
        }
      }
    }
  }

  [[gnu::always_inline]] static inline void two_groups(Ints (&dots)[kRows][kColumns],
                                                       const uint8_t* const (&block)[2],
                                                       int j0,
                                                       int j1,
                                                       const ActivationBlock* x,
                                                       int64_t stride) {
    if constexpr (kVnni || kFormat.code_bits == 8) {
      one_group(dots, block, j0, x, stride);
      one_group(dots, block, j1, x, stride);
    } else {
      Ints w0[kColumns], w1[kColumns];
      for (int c = 0; c < kColumns; c++) {
        w0[c] = codes<kType>(block[panel_of(c)], lane_of(c), j0);
        w1[c] = codes<kType>(block[panel_of(c)], lane_of(c), j1);
      }
      for (int r = 0; r < kRows; r++) {
        const Ints y0 = group_of(x[r * stride], j0), y1 = group_of(x[r * stride], j1);
        for (int c = 0; c < kColumns; c++) dots[r][c] = dot_pair(dots[r][c], w0[c], y0, w1[c], y1);
      }
    }
  }

  [[gnu::always_inline]] static inline void one_group(Ints (&dots)[kRows][kColumns],
                                                      const uint8_t* const (&block)[2],
                                                      int j,
                                                      const ActivationBlock* x,
                                                      int64_t stride) {
    Ints w[kColumns];
    for (int c = 0; c < kColumns; c++) w[c] = codes<kType>(block[panel_of(c)], lane_of(c), j);
    for (int r = 0; r < kRows; r++) {
      const Ints y = group_of(x[r * stride], j);
      for (int c = 0; c < kColumns; c++)
        dots[r][c] = kVnni ? dot(dots[r][c], w[c], y) : dot_signed(dots[r][c], w[c], y);
    }
  }

  [[gnu::always_inline]] static inline Ints group_of(const ActivationBlock& x, int j) {
    return all_ints(load<int32_t>(x.q + 4 * j));
  }
};

template <DType kType>
struct OfType {
  template <int kRows>
  using Rows = Tile<kType, kRows>;
};

template <DType kType>
void multiply(const PanelProduct& a) {
  all_units<OfType<kType>::template Rows, kMaxRows>(a);
}

}  // namespace

void fill_linear_blocks(LinearKernels& kernels) {
  auto* table = kernels.multiply;
  table[static_cast<int>(DType::q8_0)] = multiply<DType::q8_0>;
  table[static_cast<int>(DType::q4_0)] = multiply<DType::q4_0>;
  table[static_cast<int>(DType::q4_1)] = multiply<DType::q4_1>;
  table[static_cast<int>(DType::q5_0)] = multiply<DType::q5_0>;
  table[static_cast<int>(DType::q5_1)] = multiply<DType::q5_1>;
  table[static_cast<int>(DType::q4_k)] = multiply<DType::q4_k>;
  table[static_cast<int>(DType::q5_k)] = multiply<DType::q5_k>;
  table[static_cast<int>(DType::q6_k)] = multiply<DType::q6_k>;
}

}  // namespace pagoda::cpu::PAGODA_ISA
