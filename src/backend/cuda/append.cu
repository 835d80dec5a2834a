// rope_store_kv: RMS norm per head, rotary embedding (Su et al. 2021), quantisation, scatter.
//   In: q [T, H * D] (in place), k, v [T, KH * D] bf16 or f16, angles [T, R / 2, 2] f32 {cos, sin},
//   slots [T] (-1: not stored). Out: q, and the cache rows of the slots.
//   A warp does one head of 4, 2 or 1 tokens (8, 16 or 32 lanes a row): Q heads, then K, then V. A
//   lane holds 8 dims, 16 bytes of a row, from load to store, and reaches its partners by shuffles.
//   Moves T (2 H + 2 KH) D x 2 bytes and the rows written; about 10 FLOPs an element.
//   Limits, checked by append.cpp: D one of 64, 80, 96, 128, 192, 256; one dtype for q, k, v; rows
//   at multiples of 16 bytes.
//   Must equal reference rope_store_kv within the format's rounding; a row's bits are its own.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "backend/cuda/append_params.h"
#include "backend/cuda/mma.cuh"

namespace pagoda::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kBlocks = 9;  // per multiprocessor: 56 registers
constexpr int kLaneDims = 8;

// One (token, head), spread over kLanes lanes. All lanes of a warp call all of this.
template <int kLanes>
struct Row {
  float x[kLaneDims];  // 0 in lanes past the head's end, or without work
  int lane;            // of the row
  int dims;            // D
  bool present;        // this lane has dims, and work

  __device__ __forceinline__ float sum(float y) const {
#pragma unroll
    for (int d = kLanes / 2; d > 0; d /= 2) y += __shfl_xor_sync(~0u, y, d);
    return y;
  }
  template <int kOf = kLanes>
  __device__ __forceinline__ float maximum(float y) const {
#pragma unroll
    for (int d = kOf / 2; d > 0; d /= 2) y = fmaxf(y, __shfl_xor_sync(~0u, y, d));
    return y;
  }
};

template <int kLanes>
__device__ __forceinline__ void unpack(Row<kLanes>& r, const uint4& row, bool bf16) {
  const uint32_t two[4] = {row.x, row.y, row.z, row.w};
  if (bf16) {
#pragma unroll
    for (int j = 0; j < kLaneDims; j++)
      r.x[j] = __uint_as_float(j % 2 ? two[j / 2] & 0xFFFF0000u : two[j / 2] << 16);
  } else {
#pragma unroll
    for (int j = 0; j < kLaneDims; j += 2) {
      const float2 x = __half22float2(*reinterpret_cast<const __half2*>(&two[j / 2]));
      r.x[j] = x.x, r.x[j + 1] = x.y;
    }
  }
}
template <int kLanes>
__device__ __forceinline__ uint4 pack(const Row<kLanes>& r, bool bf16) {
  uint32_t two[4];
  if (bf16) {
#pragma unroll
    for (int j = 0; j < 4; j++) two[j] = pack16<true>(r.x[2 * j], r.x[2 * j + 1]);
  } else {
#pragma unroll
    for (int j = 0; j < 4; j++) two[j] = pack16<false>(r.x[2 * j], r.x[2 * j + 1]);
  }
  return {two[0], two[1], two[2], two[3]};
}

// x = x * weight / rms(x)
template <int kLanes>
__device__ __forceinline__ void normalise(const AppendParams& p,
                                          Row<kLanes>& r,
                                          const float* weight) {
  float sum = 0.f;
#pragma unroll
  for (int j = 0; j < kLaneDims; j++) sum += r.x[j] * r.x[j];
  const float scale = rsqrtf(r.sum(sum) / r.dims + p.norm_epsilon);
#pragma unroll
  for (int j = 0; j < kLaneDims; j++)
    r.x[j] *= scale * (r.present ? weight[r.lane * kLaneDims + j] : 0.f);
}

// Rotation turns pairs of dims: (2 i, 2 i + 1), or, half split, (i, i + P) of P pairs. If P is a
// multiple of 8, all 8 dims of a lane turn, or none, their partners are 8 of one lane, and their
// angles (half split 8, interleaved 4) lie side by side and are read ahead of the row.
struct Angles {
  float2 of[kLaneDims];
};
__device__ __forceinline__ const float2* angles_of(const AppendParams& p, int token) {
  return reinterpret_cast<const float2*>(p.angles) + int64_t{token} * p.num_pairs;
}
__device__ __forceinline__ Angles load_angles(const AppendParams& p, int token, int lane) {
  Angles a = {};
  const bool split = p.rotation == Rotation::half_split;
  const int dim0 = lane * kLaneDims, pairs = p.num_pairs;
  if (pairs % kLaneDims != 0 || dim0 >= 2 * pairs) return a;
  const int first = !split ? dim0 / 2 : dim0 < pairs ? dim0 : dim0 - pairs;
  const auto* from = reinterpret_cast<const float4*>(angles_of(p, token) + first);
#pragma unroll
  for (int j = 0; j < kLaneDims; j += 2) {
    if (j >= kLaneDims / 2 && !split) break;
    const float4 two = __ldg(from + j / 2);
    a.of[j] = {two.x, two.y}, a.of[j + 1] = {two.z, two.w};
  }
  return a;
}

template <int kLanes>
__device__ __forceinline__ void rotate(const AppendParams& p, Row<kLanes>& r, const Angles& a) {
  const int pairs = p.num_pairs, dim0 = r.lane * kLaneDims;
  const bool turns = dim0 < 2 * pairs;
  if (p.rotation == Rotation::interleaved) {
#pragma unroll
    for (int j = 0; j < kLaneDims; j += 2) {
      const float2 angle = a.of[j / 2];
      const float x = r.x[j], y = r.x[j + 1];
      if (turns) r.x[j] = x * angle.x - y * angle.y, r.x[j + 1] = x * angle.y + y * angle.x;
    }
    return;
  }
  const bool low = dim0 < pairs;
  const int lane = max(low ? dim0 + pairs : dim0 - pairs, 0) / kLaneDims;
#pragma unroll
  for (int j = 0; j < kLaneDims; j++) {
    const float other = __shfl_sync(~0u, r.x[j], lane, kLanes);
    if (turns) r.x[j] = r.x[j] * a.of[j].x + other * (low ? -a.of[j].y : a.of[j].y);
  }
}

// Any number of pairs, dim by dim.
template <int kLanes>
__device__ __forceinline__ void rotate_any(const AppendParams& p,
                                           Row<kLanes>& r,
                                           const float2* angles) {
  const int pairs = p.num_pairs;
  const bool split = p.rotation == Rotation::half_split;
  float turned[kLaneDims];
#pragma unroll
  for (int j = 0; j < kLaneDims; j++) {
    const int dim = r.lane * kLaneDims + j;
    const bool low = split ? dim < pairs : dim % 2 == 0, turns = r.present && dim < 2 * pairs;
    const int partner = split ? (low ? dim + pairs : dim - pairs) : dim ^ 1;
    float other = 0.f;
#pragma unroll
    for (int i = 0; i < kLaneDims; i++) {
      const float y = __shfl_sync(~0u, r.x[i], partner / kLaneDims, kLanes);
      if (partner % kLaneDims == i) other = y;
    }
    const float2 a = turns ? angles[!split ? dim / 2 : low ? dim : partner] : make_float2(1.f, 0.f);
    turned[j] = turns ? r.x[j] * a.x + other * (low ? -a.y : a.y) : r.x[j];
  }
#pragma unroll
  for (int j = 0; j < kLaneDims; j++) r.x[j] = turned[j];
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

template <int kLanes>
__device__ __forceinline__ uint2 to_fp8(const Row<kLanes>& r, float inverse) {
  uint32_t word[2] = {};
#pragma unroll
  for (int j = 0; j < kLaneDims; j++) word[j / 4] |= to_e4m3(r.x[j] * inverse) << (8 * (j % 4));
  return {word[0], word[1]};
}

template <int kLanes>
__device__ __forceinline__ uint2 to_int8(const Row<kLanes>& r, __half* scale_at) {
  float largest = 0.f;
#pragma unroll
  for (int j = 0; j < kLaneDims; j++) largest = fmaxf(largest, fabsf(r.x[j]));
  const __half scale = __float2half_rn(fminf(r.maximum(largest) / 127.f, 65504.f));
  const float inverse = __half2float(scale) > 0.f ? 1.f / __half2float(scale) : 0.f;
  uint32_t word[2] = {};
#pragma unroll
  for (int j = 0; j < kLaneDims; j++) {
    const int n = max(-127, min(127, __float2int_rn(r.x[j] * inverse)));
    word[j / 4] |= static_cast<uint32_t>(n + 128) << (8 * (j % 4));
  }
  if (r.present && r.lane == 0) *scale_at = scale;
  return {word[0], word[1]};
}

// x = scale n + zero, n in 0..15, over groups of 64 dims, which are 8 lanes.
template <int kLanes>
__device__ __forceinline__ uint32_t to_int4(const Row<kLanes>& r, __half2* scales_at, bool is_v) {
  float low = 3e38f, high = -3e38f;
#pragma unroll
  for (int j = 0; j < kLaneDims && r.present; j++)
    low = fminf(low, r.x[j]), high = fmaxf(high, r.x[j]);
  constexpr int kGroupLanes = kScaleDims / kLaneDims;
  low = -r.template maximum<kGroupLanes>(-low);
  high = r.template maximum<kGroupLanes>(high);
  const __half scale = __float2half_rn((high - low) / 15.f), zero = __float2half_rn(low);
  const float inverse = __half2float(scale) > 0.f ? 1.f / __half2float(scale) : 0.f;
  uint32_t n[kLaneDims];
#pragma unroll
  for (int j = 0; j < kLaneDims; j++)
    n[j] = max(0, min(15, __float2int_rn((r.x[j] - __half2float(zero)) * inverse)));
  if (r.present && r.lane % kGroupLanes == 0)
    scales_at[r.lane / kGroupLanes] = __halves2half2(scale, zero);
  const uint32_t low4[4] = {n[0], n[1], n[2], n[3]}, high4[4] = {n[4], n[5], n[6], n[7]};
  return is_v ? pack_int4_v(low4) | pack_int4_v(high4) << 16 : pack_int4_k(n);
}

template <int kLanes>
__device__ __forceinline__ void store(
    const AppendParams& p, const Row<kLanes>& r, int slot, int head, bool is_v) {
  uint8_t* base = p.kv + static_cast<uint32_t>(slot) / p.block_size * p.block_bytes +
                  int64_t{head} * p.head_bytes;
  uint8_t* rows = base + (is_v ? p.v_offset : 0);
  uint8_t* scales = base + (is_v ? p.v_scales_offset : p.k_scales_offset);
  const int at = static_cast<int>(static_cast<uint32_t>(slot) % p.block_size);
  const auto place = [&](int bytes) {  // of a lane that has `bytes` of the row
    return rows + byte_offset(p.row_bytes, at, r.lane * bytes);
  };
  if (p.format == Format::fp8) {
    const float* all = is_v ? p.v_scales : p.k_scales;
    const uint2 x = to_fp8(r, all ? 1.f / all[head] : 1.f);
    if (r.present) *reinterpret_cast<uint2*>(place(8)) = x;
  } else if (p.format == Format::int8) {
    const uint2 x = to_int8(r, reinterpret_cast<__half*>(scales) + at);
    if (r.present) *reinterpret_cast<uint2*>(place(8)) = x;
  } else if (p.format == Format::int4) {
    const int groups = (r.dims + kScaleDims - 1) / kScaleDims;
    const uint32_t x = to_int4(r, reinterpret_cast<__half2*>(scales) + at * groups, is_v);
    if (r.present) *reinterpret_cast<uint32_t*>(place(4)) = x;
  } else if (r.present) {
    *reinterpret_cast<uint4*>(place(16)) = pack(r, p.format == Format::bf16);
  }
}

template <int kLanes>
__global__ void __launch_bounds__(kThreads, kBlocks)
    append_kernel(const __grid_constant__ AppendParams p) {
  constexpr int kRows = 32 / kLanes;  // tokens of a warp
  const int heads = p.num_heads + 2 * p.kv_heads;
  const int warp = blockIdx.x * (kThreads / 32) + threadIdx.x / 32;
  const int head = warp % heads, token = warp / heads * kRows + threadIdx.x % 32 / kLanes;
  const bool is_q = head < p.num_heads, is_v = head >= p.num_heads + p.kv_heads;
  const int row_head = is_q ? head : is_v ? head - p.num_heads - p.kv_heads : head - p.num_heads;
  const int slot = !is_q && token < p.num_tokens ? p.slots[token] : 0;
  Row<kLanes> r;
  r.lane = threadIdx.x % kLanes;
  r.dims = p.head_dim;
  r.present = token < p.num_tokens && slot >= 0 && r.lane * kLaneDims < r.dims;
  const void* rows = is_q ? p.q : is_v ? p.v : p.k;  // written to only if q
  const int64_t row_bytes = is_q ? p.q_row_bytes : is_v ? p.v_row_bytes : p.k_row_bytes;
  auto* const at = static_cast<uint4*>(const_cast<void*>(rows)) + token * (row_bytes / 16) +
                   (row_head * r.dims / kLaneDims + r.lane);
  const bool turns = !is_v && p.angles && p.rotation != Rotation::none;
  pdl_wait();
  pdl_launch_next();  // only now: see append.h
  Angles angles = {};
  uint4 row = {};
  if (r.present) {
    row = *at;
    if (turns) angles = load_angles(p, token, r.lane);
  }
  unpack(r, row, p.is_bf16);
  const float* norm = is_v ? nullptr : is_q ? p.q_norm : p.k_norm;
  if (norm) normalise(p, r, norm);
  if (turns && p.num_pairs % kLaneDims == 0)
    rotate(p, r, angles);
  else if (turns)
    rotate_any(p, r, angles_of(p, token));
  if (!is_q)
    store(p, r, slot, row_head, is_v);
  else if (r.present)
    *at = pack(r, p.is_bf16);
}

}  // namespace

void launch_append(const AppendParams& params, const LaunchOptions& options) {
  const int lanes = params.head_dim <= 64 ? 8 : params.head_dim <= 128 ? 16 : 32;
  const int64_t rows = 32 / lanes, tokens = (params.num_tokens + rows - 1) / rows;
  const int64_t warps = tokens * (params.num_heads + 2 * params.kv_heads);
  const Launch launch = {
      static_cast<int32_t>((warps + kThreads / 32 - 1) / (kThreads / 32)), kThreads, 0};
  const auto go = [&](auto kernel) {
    prefer_shared_memory(reinterpret_cast<const void*>(kernel));
    launch_kernel(kernel, launch, options, params);
  };
  if (lanes == 8) return go(append_kernel<8>);
  if (lanes == 16) return go(append_kernel<16>);
  go(append_kernel<32>);
}

}  // namespace pagoda::cuda
