// Products with f32, f16 and bf16 weights.
//
// Computes: out[t, r] = Σ_k x[t, k] w[r, k], one chain of fused multiply-adds in rising k (bf16
// with AVX512-BF16: one chain of vdpbf16ps, two columns at a time). In: panels [cols][16], rows f32
// (bf16 with AVX512-BF16). A tile is 1 to 6 rows by two vectors of weight rows. Bytes: weights once
// per call, rows once per unit of panels; 2 T R K flops. Must equal backend/reference's linear.
#include "backend/cpu/linear_tile.h"

namespace pagoda::cpu::PAGODA_ISA {
namespace {

constexpr int kMaxRows = 6;
constexpr int64_t kPrefetchBytes = 2048;

template <DType kType, int kRows>
struct Tile {
  static constexpr int kPairs = kType == DType::bf16 ? 2 : 1;  // columns that lie together
  static constexpr int kStep = kPanelRows * kPairs * info(kType).block_bytes;

  static void run(const PanelProduct& a,
                  const uint8_t* const (&panels)[2],
                  int64_t row,
                  int64_t token) {
    const uint8_t* x = a.x + token * a.x_row_bytes;
    Floats sums[kRows][kColumns];
    for (int r = 0; r < kRows; r++)
      for (int c = 0; c < kColumns; c++) sums[r][c] = zeros();
    const uint8_t* weights[kColumns];
    const uint8_t* last[kColumns];  // from here on the next unit's panel is fetched
    for (int c = 0; c < kColumns; c++) {
      weights[c] = panels[panel_of(c)] + lane_of(c) * (kStep / kPanelRows);
      last[c] = weights[c] + a.layout.panel_bytes - kPrefetchBytes;
    }
    const int64_t next_unit = (kUnitPanels - 1) * a.layout.panel_bytes;
    int64_t k = 0;
    for (; k + kPairs <= a.cols; k += kPairs) {
      step<false>(sums, weights, x, a.x_row_bytes, k);
      if constexpr (kRows <= 2)
        for (int p = 0; p < kUnitPanels; p++)
          _mm_prefetch(reinterpret_cast<const char*>(weights[p] + kPrefetchBytes +
                                                     (weights[p] < last[p] ? 0 : next_unit)),
                       _MM_HINT_T0);
      for (int c = 0; c < kColumns; c++) weights[c] += kStep;
    }
    if (k < a.cols) step<true>(sums, weights, x, a.x_row_bytes, k);
    for (int r = 0; r < kRows; r++) finish_row(sums[r], a, row, token + r);
  }

  // Columns k … k + kPairs - 1, or k alone where it is an odd last one.
  template <bool kLast>
  [[gnu::always_inline]] static inline void step(Floats (&sums)[kRows][kColumns],
                                                 const uint8_t* const (&weights)[kColumns],
                                                 const uint8_t* x,
                                                 int64_t x_row_bytes,
                                                 int64_t k) {
    if constexpr (kType != DType::bf16) {
      Floats w[kColumns];
      for (int c = 0; c < kColumns; c++)
        w[c] = kType == DType::f32 ? load_floats(weights[c]) : load_halves(weights[c]);
      multiply_add(sums, w, x + 4 * k, x_row_bytes);
    } else {
      Ints pairs[kColumns];
      for (int c = 0; c < kColumns; c++) pairs[c] = load_ints(weights[c]);
#if defined(__AVX512BF16__)
      for (int r = 0; r < kRows; r++) {
        const Ints y = all_ints(load<int32_t>(x + r * x_row_bytes + 2 * k));
        for (int c = 0; c < kColumns; c++)
          sums[r][c] = _mm512_dpbf16_ps(
              sums[r][c], reinterpret_cast<__m512bh>(pairs[c]), reinterpret_cast<__m512bh>(y));
      }
#else
      Floats w[kColumns];
      for (int c = 0; c < kColumns; c++) w[c] = as_floats(left<16>(pairs[c]));
      multiply_add(sums, w, x + 4 * k, x_row_bytes);
      if constexpr (!kLast) {
        for (int c = 0; c < kColumns; c++)
          w[c] = as_floats(bit_and(pairs[c], all_ints(int32_t(0xffff0000))));
        multiply_add(sums, w, x + 4 * k + 4, x_row_bytes);
      }
#endif
    }
  }

  [[gnu::always_inline]] static inline void multiply_add(Floats (&sums)[kRows][kColumns],
                                                         const Floats (&w)[kColumns],
                                                         const uint8_t* x,
                                                         int64_t x_row_bytes) {
    for (int r = 0; r < kRows; r++) {
      const Floats y = all_floats(load<float>(x + r * x_row_bytes));
      for (int c = 0; c < kColumns; c++) sums[r][c] = fma(w[c], y, sums[r][c]);
    }
  }
};

template <int kRows>
using TileF32 = Tile<DType::f32, kRows>;
template <int kRows>
using TileF16 = Tile<DType::f16, kRows>;
template <int kRows>
using TileBf16 = Tile<DType::bf16, kRows>;

template <template <int> class T>
void multiply(const PanelProduct& a) {
  all_units<T, kMaxRows>(a);
}

}  // namespace

void fill_linear_floats(LinearKernels& kernels) {
  kernels.multiply[static_cast<int>(DType::f32)] = multiply<TileF32>;
  kernels.multiply[static_cast<int>(DType::f16)] = multiply<TileF16>;
  kernels.multiply[static_cast<int>(DType::bf16)] = multiply<TileBf16>;
}

}  // namespace pagoda::cpu::PAGODA_ISA
