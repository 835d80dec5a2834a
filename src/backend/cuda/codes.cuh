// Codes of a quantised cache as numbers in f16: 8 numbers of one token, in the order of the dims,
// exact and without their scale. Integers become f16 by one LOP3 or PRMT as bias + n, less the
// bias; fp8 by the hardware's conversion, or below sm_89 by moving the exponent.
#pragma once

#include "backend/cuda/kv_layout.h"
#include "backend/cuda/mma.cuh"

namespace pagoda::cuda {

enum class KeyOrValue : uint8_t { key, value };

template <Format kFormat>
constexpr int kUnitCodeBytes = kFormat == Format::int4 ? 4 : 8;  // codes of 8 numbers

struct Half8 {
  __half2 of[4];
};

__device__ __forceinline__ __half2 as_half2(uint32_t x) {
  return *reinterpret_cast<__half2*>(&x);
}
__device__ __forceinline__ uint32_t as_word(__half2 x) {
  return *reinterpret_cast<uint32_t*>(&x);
}

__device__ __forceinline__ __half2 int8_pair(uint32_t codes, uint32_t select) {
  const uint32_t biased = __byte_perm(codes, 0x64646464, select);  // 1024 + code, code = 128 + n
  return __hsub2(as_half2(biased), as_half2(0x64806480));
}

// Two e4m3 codes, bytes 0 and 1 or (kFirst 2) 2 and 3.
template <int kFirst>
__device__ __forceinline__ __half2 e4m3_pair(uint32_t codes) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  uint32_t y;
  const auto two = static_cast<uint16_t>(codes >> (8 * kFirst));
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(y) : "h"(two));
  return as_half2(y);
#else  // as f16 the exponent's bias is 8 short; NaN reads as 480, which a finite cache never holds
  const uint32_t two = __byte_perm(codes, 0, kFirst == 2 ? 0x3424 : 0x1404);
  const uint32_t y = (two & 0x80008000u) | ((two >> 1) & 0x3F803F80u);
  return __hmul2(as_half2(y), as_half2(0x5C005C00));
#endif
}

// kBias with a nibble in it, less kBias.
template <uint32_t kMask, uint32_t kBias>
__device__ __forceinline__ __half2 int4_pair(uint32_t codes) {
  return __hsub2(as_half2(and_or(codes, kMask, kBias)), as_half2(kBias));
}

template <KeyOrValue kWhich>
__device__ __forceinline__ Half8 int4_numbers(uint32_t x) {
  constexpr uint32_t kLow = 0x003C003C, kHigh = 0x03C003C0;
  constexpr uint32_t kLowBias = 0x5C005C00, kHighBias = 0x4C004C00;  // 256, 16
  const bool is_key = kWhich == KeyOrValue::key;
  const uint32_t y = is_key ? __funnelshift_r(x, x, 8) : __byte_perm(x, 0, 0x2301);
  const __half2 a = int4_pair<kLow, kLowBias>(x), b = int4_pair<kHigh, kHighBias>(x);
  const __half2 c = int4_pair<kLow, kLowBias>(y), d = int4_pair<kHigh, kHighBias>(y);
  if (is_key) return {a, b, c, d};
  return {__lows2half2(a, b), __lows2half2(c, d), __highs2half2(a, b), __highs2half2(c, d)};
}

// 8 numbers; `y` is not used by int4.
template <Format kFormat, KeyOrValue kWhich>
__device__ __forceinline__ Half8 code_numbers(uint32_t x, uint32_t y) {
  if constexpr (kFormat == Format::int4) return int4_numbers<kWhich>(x);
  if constexpr (kFormat == Format::int8)
    return {int8_pair(x, 0x4140), int8_pair(x, 0x4342), int8_pair(y, 0x4140), int8_pair(y, 0x4342)};
  return {e4m3_pair<0>(x), e4m3_pair<2>(x), e4m3_pair<0>(y), e4m3_pair<2>(y)};
}

}  // namespace pagoda::cuda
