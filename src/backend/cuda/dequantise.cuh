// Eight consecutive elements of a packed weight's row as f32: exactly what base/dequantise.cpp says
// of the same bytes. Blocks of GGUF lie at multiples of 2 bytes; 8 elements never straddle two
// scales.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "backend/cuda/weight_params.h"

namespace pagoda::cuda {

__device__ __forceinline__ uint32_t load_16(const uint8_t* p) {
  return __ldg(reinterpret_cast<const unsigned short*>(p));
}
__device__ __forceinline__ uint32_t load_32(const uint8_t* p) {
  return load_16(p) | load_16(p + 2) << 16;
}
__device__ __forceinline__ float load_half(const uint8_t* p) {
  return __half2float(__ushort_as_half(static_cast<unsigned short>(load_16(p))));
}

// Byte i of 8.
struct Bytes8 {
  uint32_t low, high;
  __device__ __forceinline__ explicit Bytes8(const uint8_t* p)
      : low(load_32(p)), high(load_32(p + 4)) {}
  __device__ __forceinline__ int operator[](int i) const {
    return static_cast<int>((i < 4 ? low >> (8 * i) : high >> (8 * i - 32)) & 255);
  }
};

// The 32-element blocks: element i's low nibble is in byte i, element i + 16's high nibble too.
// kHasMinimum: f16 scale, f16 minimum, and numbers from 0; else from -kMiddle. kFifthBits: u32 of
// high bits before the nibbles.
template <bool kHasMinimum, bool kFifthBits>
__device__ __forceinline__ void nibbles_8(const uint8_t* block, int i, float (&y)[8]) {
  constexpr int kMiddle = kHasMinimum ? 0 : kFifthBits ? 16 : 8;
  constexpr int kHead = kHasMinimum ? 4 : 2;
  const float d = load_half(block), minimum = kHasMinimum ? load_half(block + 2) : 0.f;
  const uint32_t fifth = kFifthBits ? load_32(block + kHead) >> i : 0;
  const Bytes8 bytes(block + kHead + (kFifthBits ? 4 : 0) + i % 16);
  const int shift = i < 16 ? 0 : 4;
#pragma unroll
  for (int j = 0; j < 8; j++) {
    const int n = (bytes[j] >> shift & 15) | static_cast<int>(fifth >> j & 1) << 4;
    y[j] = __fmul_rn(d, static_cast<float>(n - kMiddle));
    if (kHasMinimum) y[j] = __fadd_rn(y[j], minimum);
  }
}

// Q4_K, Q5_K: 8 sub-blocks of 32 with 6-bit scales and minimums in 12 bytes.
template <bool kFifthBits>
__device__ __forceinline__ void k_nibbles_8(const uint8_t* block, int e, float (&y)[8]) {
  const int sub = e / 32, i = e % 32;
  const uint8_t* packed = block + 4;
  uint32_t scale, minimum;
  if (sub < 4) {
    scale = packed[sub] & 63;
    minimum = packed[sub + 4] & 63;
  } else {
    scale = (packed[sub + 4] & 15) | (packed[sub - 4] >> 6) << 4;
    minimum = (packed[sub + 4] >> 4) | (packed[sub] >> 6) << 4;
  }
  const float d = load_half(block) * static_cast<float>(scale);
  const float m = load_half(block + 2) * static_cast<float>(minimum);
  const Bytes8 low(block + (kFifthBits ? 48 : 16) + sub / 2 * 32 + i);
  const Bytes8 high(block + 16 + i);  // of Q5_K only
#pragma unroll
  for (int j = 0; j < 8; j++) {
    int n = low[j] >> (sub % 2 * 4) & 15;
    if (kFifthBits) n |= (high[j] >> sub & 1) << 4;
    y[j] = __fsub_rn(__fmul_rn(d, static_cast<float>(n)), m);
  }
}

// Q6_K: 16 sub-blocks of 16, see dequantise.cpp.
__device__ __forceinline__ void q6_k_8(const uint8_t* block, int e, float (&y)[8]) {
  const int half = e / 128, in_half = e % 128, quarter = in_half / 32, i = in_half % 32;
  const Bytes8 low(block + half * 64 + in_half % 64), high(block + 128 + half * 32 + i);
  const float d =
      load_half(block + 208) * static_cast<float>(static_cast<int8_t>(block[192 + e / 16]));
#pragma unroll
  for (int j = 0; j < 8; j++) {
    const int nibble = quarter < 2 ? low[j] & 15 : low[j] >> 4;
    y[j] = d * static_cast<float>((nibble | (high[j] >> (2 * quarter) & 3) << 4) - 32);
  }
}

// Elements [8 group, 8 group + 8) of `row`.
template <WeightKind kKind>
__device__ __forceinline__ void load_weights_8(const uint8_t* row, int group, float (&y)[8]) {
  const int e = 8 * group;
  if constexpr (kKind == WeightKind::f32) {
    const float4* p = reinterpret_cast<const float4*>(row) + 2 * group;
    const float4 a = __ldg(p), b = __ldg(p + 1);
    y[0] = a.x, y[1] = a.y, y[2] = a.z, y[3] = a.w;
    y[4] = b.x, y[5] = b.y, y[6] = b.z, y[7] = b.w;
  } else if constexpr (kKind == WeightKind::f16 || kKind == WeightKind::bf16) {
    const uint4 v = __ldg(reinterpret_cast<const uint4*>(row) + group);
    const uint32_t words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int j = 0; j < 4; j++) {
      const float2 two = kKind == WeightKind::f16
                             ? __half22float2(*reinterpret_cast<const __half2*>(&words[j]))
                             : make_float2(__uint_as_float(words[j] << 16),
                                           __uint_as_float(words[j] & 0xFFFF0000u));
      y[2 * j] = two.x, y[2 * j + 1] = two.y;
    }
  } else if constexpr (kKind == WeightKind::q8_0) {
    const uint8_t* block = row + e / 32 * 34;
    const float d = load_half(block);
    const Bytes8 bytes(block + 2 + e % 32);
#pragma unroll
    for (int j = 0; j < 8; j++) y[j] = d * static_cast<float>(static_cast<int8_t>(bytes[j]));
  } else if constexpr (kKind == WeightKind::q4_0) {
    nibbles_8<false, false>(row + e / 32 * 18, e % 32, y);
  } else if constexpr (kKind == WeightKind::q4_1) {
    nibbles_8<true, false>(row + e / 32 * 20, e % 32, y);
  } else if constexpr (kKind == WeightKind::q5_0) {
    nibbles_8<false, true>(row + e / 32 * 22, e % 32, y);
  } else if constexpr (kKind == WeightKind::q5_1) {
    nibbles_8<true, true>(row + e / 32 * 24, e % 32, y);
  } else if constexpr (kKind == WeightKind::q4_k) {
    k_nibbles_8<false>(row + e / 256 * 144, e % 256, y);
  } else if constexpr (kKind == WeightKind::q5_k) {
    k_nibbles_8<true>(row + e / 256 * 176, e % 256, y);
  } else {
    q6_k_8(row + e / 256 * 210, e % 256, y);
  }
}

// Calls f on the device with the kind as a compile-time constant.
template <WeightKind kKind>
struct KindConstant {
  static constexpr WeightKind kValue = kKind;
};
template <typename F>
__device__ __forceinline__ void with_kind(WeightKind kind, const F& f) {
  switch (kind) {
    case WeightKind::f32:
      return f(KindConstant<WeightKind::f32>{});
    case WeightKind::f16:
      return f(KindConstant<WeightKind::f16>{});
    case WeightKind::bf16:
      return f(KindConstant<WeightKind::bf16>{});
    case WeightKind::q8_0:
      return f(KindConstant<WeightKind::q8_0>{});
    case WeightKind::q4_0:
      return f(KindConstant<WeightKind::q4_0>{});
    case WeightKind::q4_1:
      return f(KindConstant<WeightKind::q4_1>{});
    case WeightKind::q5_0:
      return f(KindConstant<WeightKind::q5_0>{});
    case WeightKind::q5_1:
      return f(KindConstant<WeightKind::q5_1>{});
    case WeightKind::q4_k:
      return f(KindConstant<WeightKind::q4_k>{});
    case WeightKind::q5_k:
      return f(KindConstant<WeightKind::q5_k>{});
    case WeightKind::q6_k:
      return f(KindConstant<WeightKind::q6_k>{});
  }
}

}  // namespace pagoda::cuda
