#include "backend/cpu/machine_limits_kernels.h"

#include <immintrin.h>

#include "backend/cpu/vec.h"

namespace pagoda::cpu::PAGODA_ISA {

constexpr int kSums = 12;

#ifdef __AVX512F__
typedef __m512i Ints;
static inline Ints splat_bytes(char x) {
  return _mm512_set1_epi8(x);
}
#else
typedef __m256i Ints;
static inline Ints splat_bytes(char x) {
  return _mm256_set1_epi8(x);
}
#endif
constexpr int kBytes = sizeof(Ints);

// Sums of products of unsigned and signed bytes, by the best instructions that linear uses.
static inline Ints dot_bytes(Ints sum, Ints a, Ints b) {
#if defined(__AVX512VNNI__)
  return _mm512_dpbusd_epi32(sum, a, b);
#elif defined(__AVXVNNI__)
  return _mm256_dpbusd_avx_epi32(sum, a, b);
#elif defined(__AVX512F__)
  const Ints pairs = _mm512_maddubs_epi16(a, b);
  return _mm512_add_epi32(sum, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
#else
  const Ints pairs = _mm256_maddubs_epi16(a, b);
  return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
#endif
}

// The operands pass through an empty instruction before each product, so that none is computed
// once for all.
template <typename V, typename Product>
static inline void spin(int64_t steps, V a, V b, V zero, Product product) {
  V sums[kSums];
  for (V& sum : sums) sum = zero;
  for (int64_t i = 0; i < steps; i++)
#pragma GCC unroll 12
    for (int s = 0; s < kSums; s++) {
      asm volatile("" : "+v"(a));
      sums[s] = product(sums[s], a, b);
    }
#pragma GCC unroll 12
  for (int s = 0; s < kSums; s++) asm volatile("" ::"v"(sums[s]));
}

static double spin_int8(int64_t steps) {
  spin(steps, splat_bytes(1), splat_bytes(2), splat_bytes(0), [](Ints sum, Ints a, Ints b) {
    return dot_bytes(sum, a, b);
  });
  return 2.0 * kBytes * kSums * double(steps);
}

static double spin_f32(int64_t steps) {
  spin(steps, splat(1.f), splat(0.5f), splat(0.f), [](Vec sum, Vec a, Vec b) {
    return fma(a, b, sum);
  });
  return 2.0 * kBytes / 4 * kSums * double(steps);
}

static double spin_bf16(int64_t steps) {
#ifdef __AVX512BF16__
  const Ints ones = _mm512_set1_epi16(0x3f80);  // 1 in bf16
  spin(steps, _mm512_castsi512_ps(ones), splat(0.f), splat(0.f), [](Vec sum, Vec a, Vec b) {
    return _mm512_dpbf16_ps(
        sum, (__m512bh)_mm512_castps_si512(a), (__m512bh)_mm512_castps_si512(b));
  });
  return 2.0 * kBytes / 2 * kSums * double(steps);
#else
  return spin_f32(steps);
#endif
}

static int64_t read(const uint8_t* data, int64_t bytes) {
  constexpr int kStreams = 512 / kBytes;
  Ints sums[kStreams];
  for (Ints& sum : sums) sum = splat_bytes(0);
  for (int64_t at = 0; at < bytes; at += 512)
#pragma GCC unroll 16
    for (int s = 0; s < kStreams; s++)
      sums[s] ^= *reinterpret_cast<const Ints*>(data + at + s * kBytes);
  for (int s = 1; s < kStreams; s++) sums[0] ^= sums[s];
  return sums[0][0];
}

void fill(MachineLimitsKernels& kernels) {
  kernels = {.read = read, .int8 = spin_int8, .f32 = spin_f32, .bf16 = spin_bf16};
}

}  // namespace pagoda::cpu::PAGODA_ISA
