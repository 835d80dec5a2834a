// Naive attention: softmax(q kᵀ scale) v over the paged cache, from the definition, in f32.
//   In: q [T, H * D] bf16 or f16, the cache, lengths and block table. Out: [T, H * D], [T, H].
//   A block of 128 threads a (row, head). First the maximum of all scores, a key a thread; then,
//   128 keys at a time, the scores again, their weights in shared memory, and a dim a thread the
//   weighted sum. Keys that the row does not see are never read.
//   Moves 3 x keys x D elements a row and head; 6 FLOPs an element.
//   Limits, checked by naive.cpp: rows of K and V are multiples of 16 bytes.
//   Must equal the reference's attention; a row's bits are its own, in one order for every batch.
#include <cmath>

#include "backend/cuda/codes.cuh"
#include "backend/cuda/e4m3.h"
#include "backend/cuda/naive_params.h"
#include "backend/cuda/numbers.cuh"
#include "backend/cuda/ptx.cuh"

namespace pagoda::cuda {
namespace {

constexpr int kThreads = 128;

__device__ __forceinline__ float half_at(const uint8_t* scales, int i) {
  return __half2float(reinterpret_cast<const __half*>(scales)[i]);
}

// K or V of one token of a (block, head).
struct StoredRow {
  const uint8_t* rows;
  const uint8_t* scales;
  int row;
  KeyOrValue which;
};

__device__ __forceinline__ StoredRow
stored_row(const NaiveParams& p, int seq, int kv_head, int key, KeyOrValue which) {
  const int64_t block =
      p.block_table[int64_t{seq} * p.max_blocks + static_cast<uint32_t>(key) / p.block_size];
  const uint8_t* head = p.kv + block * p.block_bytes + int64_t{kv_head} * p.head_bytes;
  const bool is_key = which == KeyOrValue::key;
  return {head + (is_key ? 0 : p.v_offset),
          head + (is_key ? p.k_scales_offset : p.v_scales_offset),
          static_cast<int>(static_cast<uint32_t>(key) % p.block_size),
          which};
}

__device__ __forceinline__ float element(const NaiveParams& p, const StoredRow& r, int dim) {
  const int D = p.head_dim;
  const auto at = [&](int row_bytes, int byte) {
    return r.rows + byte_offset(row_bytes, r.row, byte);
  };
  switch (p.format) {
    case Format::bf16:
      return __bfloat162float(*reinterpret_cast<const __nv_bfloat16*>(at(2 * D, 2 * dim)));
    case Format::f16:
      return __half2float(*reinterpret_cast<const __half*>(at(2 * D, 2 * dim)));
    case Format::fp8:
      return from_e4m3(*at(D, dim));
    case Format::int8:
      return static_cast<float>(*at(D, dim) - 128) * half_at(r.scales, r.row);
    default:
      break;
  }
  const uint32_t word = *reinterpret_cast<const uint32_t*>(at(int4_row_bytes(D), dim / 8 * 4));
  const uint32_t n = r.which == KeyOrValue::key
                         ? unpack_int4_k(word, dim % 8)
                         : unpack_int4_v(word >> (dim % 8 / 4 * 16) & 0xFFFF, dim % 4);
  const int group = r.row * ((D + kScaleDims - 1) / kScaleDims) + dim / kScaleDims;
  return fmaf(
      static_cast<float>(n), half_at(r.scales, 2 * group), half_at(r.scales, 2 * group + 1));
}

__device__ __forceinline__ float block_max(float x) {
  __shared__ float of_warp[kThreads / 32];
#pragma unroll
  for (int d = 16; d > 0; d /= 2) x = fmaxf(x, __shfl_xor_sync(~0u, x, d));
  __syncthreads();
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = x;
  __syncthreads();
  for (int w = 0; w < kThreads / 32; w++) x = fmaxf(x, of_warp[w]);
  return x;
}

// The sequence of a row: the last that begins at or before it and has rows.
__device__ __forceinline__ int sequence_of(const NaiveParams& p, int row) {
  int low = 0, high = p.num_seqs;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (p.cu_q_lens[middle] <= row ? low : high) = middle;
  }
  return low;
}

__global__ void __launch_bounds__(kThreads) naive_kernel(const __grid_constant__ NaiveParams p) {
  extern __shared__ float q[];  // [D], scaled
  __shared__ float weights[kThreads];
  const int row = blockIdx.x / p.num_heads, head = blockIdx.x % p.num_heads;
  pdl_wait();
  pdl_launch_next();
  const int seq = sequence_of(p, row), kv_head = head / p.group;
  const int position = p.kv_lens[seq] - (p.cu_q_lens[seq + 1] - row);
  const int first = p.window > 0 ? max(0, position - p.window + 1) : 0;
  for (int d = threadIdx.x; d < p.head_dim; d += kThreads)
    q[d] = read_number(p.q, row, int64_t{head} * p.head_dim + d);
  __syncthreads();
  const auto score_of = [&](int key) {
    const StoredRow k = stored_row(p, seq, kv_head, key, KeyOrValue::key);
    float score = 0.f;
#pragma unroll 1
    for (int d = 0; d < p.head_dim; d++) score = fmaf(q[d], element(p, k, d), score);
    score *= p.scale;
    return p.softcap > 0.f ? p.softcap * tanhf(score / p.softcap) : score;
  };
  const bool has_sink = p.sinks && position >= 0;
  float largest = has_sink ? p.sinks[head] : -INFINITY;
  for (int key = first + threadIdx.x; key <= position; key += kThreads)
    largest = fmaxf(largest, score_of(key));
  largest = block_max(largest);
  float sum = has_sink ? expf(p.sinks[head] - largest) : 0.f;
  float out[2] = {};  // dims threadIdx.x and threadIdx.x + 128
  for (int begin = first; begin <= position; begin += kThreads) {
    const int key = begin + threadIdx.x;
    weights[threadIdx.x] = key <= position ? expf(score_of(key) - largest) : 0.f;
    __syncthreads();
#pragma unroll 1
    for (int i = 0; i < kThreads && begin + i <= position; i++) {
      const StoredRow v = stored_row(p, seq, kv_head, begin + i, KeyOrValue::value);
      sum += weights[i];
#pragma unroll
      for (int j = 0; j < 2; j++)
        if (threadIdx.x + j * kThreads < p.head_dim)
          out[j] = fmaf(weights[i], element(p, v, threadIdx.x + j * kThreads), out[j]);
    }
    __syncthreads();
  }
#pragma unroll
  for (int j = 0; j < 2; j++)
    if (threadIdx.x + j * kThreads < p.head_dim)
      write_number(p.out,
                   row,
                   int64_t{head} * p.head_dim + threadIdx.x + j * kThreads,
                   sum > 0.f ? out[j] / sum : 0.f);
  if (p.log_sum_exp && threadIdx.x == 0)
    p.log_sum_exp[row * p.sum_row_floats + head] = sum > 0.f ? largest + logf(sum) : -INFINITY;
}

}  // namespace

void launch_naive(const NaiveParams& params, const LaunchOptions& options) {
  launch_kernel(
      naive_kernel,
      {params.num_rows * params.num_heads, kThreads, params.head_dim * int32_t{sizeof(float)}},
      options,
      params);
}

}  // namespace pagoda::cuda
