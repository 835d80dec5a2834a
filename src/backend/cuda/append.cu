// rope_store_kv: RMS norm per head, rotary embedding (Su et al. 2021), quantisation, scatter.
//   In: q [T, H * D] (in place), k, v [T, KH * D] bf16 or f16, angles [T, R / 2, 2] f32 {cos, sin},
//   slots [T] (-1: not stored). Out: q, and the cache rows of the slots.
//   A warp does one (token, head): Q heads, then K, then V. The row lies in shared memory as f32
//   while norm and rotation mix its dims; then each lane writes 4 bytes at a time.
//   Moves T (2 H + 2 KH) D x 2 bytes and the rows written; about 10 FLOPs an element.
//   Limits, checked by append.cpp: D one of 64, 80, 96, 128, 192, 256; one dtype for q, k, v.
//   Must equal reference rope_store_kv within the format's rounding; a row's bits are its own.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "backend/cuda/append_params.h"
#include "backend/cuda/ptx.cuh"

namespace pagoda::cuda {
namespace {

constexpr int kWarps = 8;

__device__ __forceinline__ float warp_sum(float x) {
#pragma unroll
  for (int d = 16; d > 0; d /= 2) x += __shfl_xor_sync(~0u, x, d);
  return x;
}
__device__ __forceinline__ float warp_max(float x) {
#pragma unroll
  for (int d = 16; d > 0; d /= 2) x = fmaxf(x, __shfl_xor_sync(~0u, x, d));
  return x;
}

__device__ __forceinline__ float2 unpack(uint32_t two, bool bf16) {
  return bf16 ? __bfloat1622float2(*reinterpret_cast<__nv_bfloat162*>(&two))
              : __half22float2(*reinterpret_cast<__half2*>(&two));
}
__device__ __forceinline__ uint32_t pack(float x, float y, bool bf16) {
  uint32_t two;
  if (bf16)
    *reinterpret_cast<__nv_bfloat162*>(&two) = __floats2bfloat162_rn(x, y);
  else
    *reinterpret_cast<__half2*>(&two) = __floats2half2_rn(x, y);
  return two;
}

// row = row * weight / rms(row)
template <int kDims>
__device__ __forceinline__ void normalise(const AppendParams& p,
                                          float* row,
                                          const float* weight,
                                          int lane) {
  float sum = 0.f;
#pragma unroll
  for (int d = lane; d < kDims; d += 32) sum += row[d] * row[d];
  const float scale = rsqrtf(warp_sum(sum) / kDims + p.norm_epsilon);
#pragma unroll
  for (int d = lane; d < kDims; d += 32) row[d] *= scale * weight[d];
  __syncwarp();
}

// This lane's angles, read ahead of the row they turn.
template <int kDims>
struct Angles {
  static constexpr int kSteps = (kDims / 2 + 31) / 32;
  float2 of[kSteps];
  __device__ __forceinline__ void load(const AppendParams& p, int token, int lane) {
    const float2* from = reinterpret_cast<const float2*>(p.angles) + int64_t{token} * p.num_pairs;
#pragma unroll
    for (int i = 0; i < kSteps; i++)
      of[i] = i * 32 + lane < p.num_pairs ? from[i * 32 + lane] : make_float2(1.f, 0.f);
  }
};

template <int kDims>
__device__ __forceinline__ void rotate(const AppendParams& p,
                                       float* row,
                                       const Angles<kDims>& angles,
                                       int lane) {
  const bool halves = p.rotation == Rotation::half_split;
#pragma unroll
  for (int step = 0; step < Angles<kDims>::kSteps; step++) {
    const int i = step * 32 + lane;
    if (i >= p.num_pairs) break;
    const int a = halves ? i : 2 * i, b = halves ? i + p.num_pairs : 2 * i + 1;
    const float2 angle = angles.of[step];
    const float x = row[a], y = row[b];
    row[a] = x * angle.x - y * angle.y;
    row[b] = x * angle.y + y * angle.x;
  }
  __syncwarp();
}

template <int kDims>
__device__ __forceinline__ void store_16(
    const AppendParams& p, uint8_t* to, const float* row, int slot, int lane) {
#pragma unroll
  for (int i = lane; i < kDims / 2; i += 32)
    *reinterpret_cast<uint32_t*>(to + byte_offset(2 * kDims, slot, 4 * i)) =
        pack(row[2 * i], row[2 * i + 1], p.format == Format::bf16);
}

// e4m3, round to nearest even, saturating at 448 (no hardware below sm_89).
__device__ __forceinline__ uint32_t to_e4m3(float x) {
  const uint32_t sign = __float_as_uint(x) >> 24 & 0x80;
  const float a = fminf(fabsf(x), 448.f);
  if (a < 0.015625f) return sign | static_cast<uint32_t>(__float2int_rn(a * 512.f));
  const uint32_t bits = __float_as_uint(a);
  const uint32_t rounded = bits + 0x7FFFF + (bits >> 20 & 1);
  return sign | (((rounded >> 20) - (120 << 3)) & 0x7F);
}

template <int kDims>
__device__ __forceinline__ void store_fp8(
    const AppendParams& p, uint8_t* to, const float* row, int slot, float scale, int lane) {
#pragma unroll
  for (int i = lane; i < kDims / 4; i += 32) {
    uint32_t word = 0;
#pragma unroll
    for (int j = 0; j < 4; j++) word |= to_e4m3(row[4 * i + j] / scale) << (8 * j);
    *reinterpret_cast<uint32_t*>(to + byte_offset(kDims, slot, 4 * i)) = word;
  }
}

template <int kDims>
__device__ __forceinline__ void store_int8(
    const AppendParams& p, uint8_t* to, __half* scales, const float* row, int slot, int lane) {
  float largest = 0.f;
#pragma unroll
  for (int d = lane; d < kDims; d += 32) largest = fmaxf(largest, fabsf(row[d]));
  const __half scale = __float2half_rn(fminf(warp_max(largest) / 127.f, 65504.f));
  const float inverse = __half2float(scale) > 0.f ? 1.f / __half2float(scale) : 0.f;
#pragma unroll
  for (int i = lane; i < kDims / 4; i += 32) {
    uint32_t word = 0;
#pragma unroll
    for (int j = 0; j < 4; j++) {
      const int n = max(-127, min(127, __float2int_rn(row[4 * i + j] * inverse)));
      word |= static_cast<uint32_t>(n + 128) << (8 * j);
    }
    *reinterpret_cast<uint32_t*>(to + byte_offset(kDims, slot, 4 * i)) = word;
  }
  if (lane == 0) scales[slot] = scale;
}

// x = scale n + zero, n in 0..15, over groups of 64 dims.
template <int kDims>
__device__ __forceinline__ void store_int4(const AppendParams& p,
                                           uint8_t* to,
                                           __half* scales,
                                           const float* row,
                                           int slot,
                                           bool is_v,
                                           int lane) {
  const int groups = (kDims + kScaleDims - 1) / kScaleDims;
  for (int g = 0; g < groups; g++) {
    const int begin = g * kScaleDims, end = min(begin + kScaleDims, kDims);
    float low = 3e38f, high = -3e38f;
    for (int d = begin + lane; d < end; d += 32)
      low = fminf(low, row[d]), high = fmaxf(high, row[d]);
    low = -warp_max(-low), high = warp_max(high);
    const __half scale = __float2half_rn((high - low) / 15.f), zero = __float2half_rn(low);
    const float inverse = __half2float(scale) > 0.f ? 1.f / __half2float(scale) : 0.f;
    for (int i = begin / 8 + lane; i < end / 8; i += 32) {
      uint32_t n[8];
#pragma unroll
      for (int j = 0; j < 8; j++)
        n[j] = max(0, min(15, __float2int_rn((row[8 * i + j] - __half2float(zero)) * inverse)));
      const uint32_t low4[4] = {n[0], n[1], n[2], n[3]}, high4[4] = {n[4], n[5], n[6], n[7]};
      *reinterpret_cast<uint32_t*>(to + byte_offset(kDims / 2, slot, 4 * i)) =
          is_v ? pack_int4_v(low4) | pack_int4_v(high4) << 16 : pack_int4_k(n);
    }
    if (lane == 0) {
      scales[(slot * groups + g) * 2] = scale;
      scales[(slot * groups + g) * 2 + 1] = zero;
    }
  }
}

template <int kDims>
__device__ __forceinline__ void store(
    const AppendParams& p, const float* row, int slot, int head, bool is_v, int lane) {
  uint8_t* base = p.kv + static_cast<uint32_t>(slot) / p.block_size * p.block_bytes +
                  int64_t{head} * p.head_bytes;
  uint8_t* to = base + (is_v ? p.v_offset : 0);
  auto* scales = reinterpret_cast<__half*>(base + (is_v ? p.v_scales_offset : p.k_scales_offset));
  const float* fp8_scales = is_v ? p.v_scales : p.k_scales;
  const int at = static_cast<int>(static_cast<uint32_t>(slot) % p.block_size);
  switch (p.format) {
    case Format::fp8:
      return store_fp8<kDims>(p, to, row, at, fp8_scales ? fp8_scales[head] : 1.f, lane);
    case Format::int8:
      return store_int8<kDims>(p, to, scales, row, at, lane);
    case Format::int4:
      return store_int4<kDims>(p, to, scales, row, at, is_v, lane);
    default:
      return store_16<kDims>(p, to, row, at, lane);
  }
}

template <int kDims>
__global__ void __launch_bounds__(kWarps * 32, 8)
    append_kernel(const __grid_constant__ AppendParams p) {
  __shared__ float rows[kWarps][kDims];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int heads = p.num_heads + 2 * p.kv_heads;
  const int work = blockIdx.x * kWarps + warp;
  const int token = work / heads, head = work % heads;
  const bool present = token < p.num_tokens;
  const int slot = present ? p.slots[token] : -1;
  float* row = rows[warp];
  pdl_wait();
  pdl_launch_next();  // only now: see append.h
  const bool is_q = head < p.num_heads, is_v = head >= p.num_heads + p.kv_heads;
  if (!present || (!is_q && slot < 0)) return;
  const bool turns = !is_v && p.angles && p.rotation != Rotation::none;
  Angles<kDims> angles;
  if (turns) angles.load(p, token, lane);
  const int kv_head = is_q ? 0 : (head - p.num_heads) % p.kv_heads;
  uint8_t* q = static_cast<uint8_t*>(p.q) + token * p.q_row_bytes + int64_t{head} * kDims * 2;
  const uint8_t* from =
      is_q   ? q
      : is_v ? static_cast<const uint8_t*>(p.v) + token * p.v_row_bytes + kv_head * kDims * 2
             : static_cast<const uint8_t*>(p.k) + token * p.k_row_bytes + kv_head * kDims * 2;
#pragma unroll
  for (int i = lane; i < kDims / 2; i += 32)
    *reinterpret_cast<float2*>(row + 2 * i) =
        unpack(*reinterpret_cast<const uint32_t*>(from + 4 * i), p.is_bf16);
  __syncwarp();
  if (!is_v) {
    const float* norm = is_q ? p.q_norm : p.k_norm;
    if (norm) normalise<kDims>(p, row, norm, lane);
    if (turns) rotate<kDims>(p, row, angles, lane);
  }
  if (!is_q) return store<kDims>(p, row, slot, kv_head, is_v, lane);
#pragma unroll
  for (int i = lane; i < kDims / 2; i += 32)
    *reinterpret_cast<uint32_t*>(q + 4 * i) = pack(row[2 * i], row[2 * i + 1], p.is_bf16);
}

}  // namespace

void launch_append(const AppendParams& params, const LaunchOptions& options) {
  const int64_t work = int64_t{params.num_tokens} * (params.num_heads + 2 * params.kv_heads);
  const Launch launch = {static_cast<int32_t>((work + kWarps - 1) / kWarps), kWarps * 32, 0};
  const auto go = [&](auto kernel) { launch_kernel(kernel, launch, options, params); };
  switch (params.head_dim) {
    case 64:
      return go(append_kernel<64>);
    case 80:
      return go(append_kernel<80>);
    case 96:
      return go(append_kernel<96>);
    case 128:
      return go(append_kernel<128>);
    case 192:
      return go(append_kernel<192>);
    default:
      return go(append_kernel<256>);
  }
}

}  // namespace pagoda::cuda
