// Activation rows into what weights are multiplied with: int8 blocks, or bf16.
#include "backend/cpu/linear_tile.h"

namespace pagoda::cpu::PAGODA_ISA {
namespace {

[[gnu::always_inline]] inline int32_t sum_of(__m128i x) {
  x = _mm_add_epi32(x, _mm_shuffle_epi32(x, 0x4e));
  x = _mm_add_epi32(x, _mm_shuffle_epi32(x, 0xb1));
  return _mm_cvtsi128_si32(x);
}

[[gnu::always_inline]] inline __m256i magnitude_bits(__m256 x) {
  return _mm256_and_si256(_mm256_castps_si256(x), _mm256_set1_epi32(0x7fffffff));
}

// The largest |x| of 32, compared as integers, so that a NaN is the largest and spoils the block.
[[gnu::always_inline]] inline float largest(const __m256 (&x)[4]) {
  const __m256i a = _mm256_max_epi32(magnitude_bits(x[0]), magnitude_bits(x[1]));
  const __m256i b = _mm256_max_epi32(magnitude_bits(x[2]), magnitude_bits(x[3]));
  const __m256i ab = _mm256_max_epi32(a, b);
  __m128i m = _mm_max_epi32(_mm256_castsi256_si128(ab), _mm256_extracti128_si256(ab, 1));
  m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0x4e));
  m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0xb1));
  return _mm_cvtss_f32(_mm_castsi128_ps(m));
}

// The sum of 16 int8.
[[gnu::always_inline]] inline int32_t sum_of_bytes(__m128i q) {
  const __m128i pairs = _mm_maddubs_epi16(_mm_set1_epi8(1), q);
  return sum_of(_mm_madd_epi16(pairs, _mm_set1_epi16(1)));
}

void quantise_row(const float* x, int64_t cols, ActivationBlock* out) {
  // 1 / d would overflow below this; such blocks (|x| < 2^-119) count as 0.
  constexpr float kSmallest = 0x1p-126f;
  for (int64_t b = 0; b < cols / kBlockCols; b++, x += kBlockCols, out++) {
    const __m256 v[4] = {_mm256_loadu_ps(x),
                         _mm256_loadu_ps(x + 8),
                         _mm256_loadu_ps(x + 16),
                         _mm256_loadu_ps(x + 24)};
    float d = largest(v) / 127.f;
    float inverse = 1.f / d;
    if (d < kSmallest) d = inverse = 0.f;
    const __m256 scale = _mm256_set1_ps(inverse);
    __m256i q[4];
    for (int i = 0; i < 4; i++) q[i] = _mm256_cvtps_epi32(_mm256_mul_ps(v[i], scale));
    const __m256i words[2] = {_mm256_packs_epi32(q[0], q[1]), _mm256_packs_epi32(q[2], q[3])};
    const __m256i bytes = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(words[0], words[1]),
                                                      _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out->q), bytes);
    const int32_t low = sum_of_bytes(_mm256_castsi256_si128(bytes));
    const int32_t sum = low + sum_of_bytes(_mm256_extracti128_si256(bytes, 1));
    out->d = d;
    out->d_sum = d * static_cast<float>(sum);
    out->negative_sum = -sum;
    out->negative_sum_low = -low;
  }
}

#if defined(__AVX512BF16__)
void round_row(const float* x, int64_t cols, uint16_t* out) {
  for (int64_t k = 0; k < cols; k += 16) {
    const int64_t left = cols - k;
    const __mmask16 mask = left >= 16 ? 0xffff : (1u << left) - 1;
    const __m256i y =
        reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(mask, x + k)));
    // One element past an odd end is stored: the zero that pairs with the last column.
    const __mmask16 stored = left >= 16 ? 0xffff : (1u << (left + left % 2)) - 1;
    _mm256_mask_storeu_epi16(out + k, stored, y);
  }
}
#endif

}  // namespace

void fill_linear_rows(LinearKernels& kernels) {
  kernels.unit_panels = kUnitPanels;
  kernels.quantise_row = quantise_row;
#if defined(__AVX512BF16__)
  kernels.bf16_rows = true;
  kernels.round_row = round_row;
#endif
}

}  // namespace pagoda::cpu::PAGODA_ISA
