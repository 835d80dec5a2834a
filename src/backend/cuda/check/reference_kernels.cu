// reference, random, read: what decode attention is checked against. One thread block a (row,
// head), float64, every key scored alone; speed is no concern.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "backend/cuda/check/reference_kernels.h"

namespace pagoda::cuda {
namespace {

constexpr int kThreads = 256;

__device__ double f16_at(const uint8_t* p, int i) {
  return __half2float(reinterpret_cast<const __half*>(p)[i]);
}
__device__ double from_e4m3(uint32_t byte) {
  const double sign = byte & 0x80 ? -1 : 1;
  const int exponent = byte >> 3 & 15, mantissa = byte & 7;
  if (exponent == 15 && mantissa == 7) return NAN;
  if (exponent == 0) return sign * mantissa / 512.0;
  return sign * ldexp(1.0 + mantissa / 8.0, exponent - 7);
}

// Element `dim` of token `at` of K or V of a (block, head).
template <class P>
__device__ double element(
    const P& p, const uint8_t* head, int at, int dim, bool is_v, double scale) {
  const uint8_t* rows = head + (is_v ? p.v_offset : 0);
  const uint8_t* scales = head + (is_v ? p.v_scales_offset : p.k_scales_offset);
  const int D = p.head_dim;
  switch (p.format) {
    case Format::bf16:
      return __bfloat162float(
          *reinterpret_cast<const __nv_bfloat16*>(rows + byte_offset(2 * D, at, 2 * dim)));
    case Format::f16:
      return f16_at(rows + byte_offset(2 * D, at, 2 * dim), 0);
    case Format::fp8:
      return from_e4m3(rows[byte_offset(D, at, dim)]) * scale;
    case Format::int8:
      return (double(rows[byte_offset(D, at, dim)]) - 128.0) * f16_at(scales, at);
    default: {
      const int groups = (D + kScaleDims - 1) / kScaleDims, g = dim / kScaleDims;
      const uint8_t* unit = rows + byte_offset(int4_row_bytes(D), at, dim / 8 * 4);
      const uint32_t word = *reinterpret_cast<const uint32_t*>(unit);
      const uint32_t n = is_v ? unpack_int4_v(word >> (dim % 8 / 4 * 16) & 0xFFFF, dim % 4)
                              : unpack_int4_k(word, dim % 8);
      return f16_at(scales, (at * groups + g) * 2) * n + f16_at(scales, (at * groups + g) * 2 + 1);
    }
  }
}

__device__ double rounded(double x, ReferenceRounding to) {
  if (to == ReferenceRounding::bf16) return __bfloat162float(__double2bfloat16(x));
  if (to == ReferenceRounding::f16) return __half2float(__double2half(x));
  return x;
}

__device__ double reduce(double x, bool maximum) {
  __shared__ double all[kThreads];
  __syncthreads();
  all[threadIdx.x] = x;
  __syncthreads();
  for (int n = kThreads / 2; n > 0; n /= 2) {
    if (threadIdx.x < n) {
      const double y = all[threadIdx.x + n];
      all[threadIdx.x] = maximum ? fmax(all[threadIdx.x], y) : all[threadIdx.x] + y;
    }
    __syncthreads();
  }
  return all[0];
}

__global__ void reference_kernel(ReferenceParams p) {
  const int row = blockIdx.x / p.num_heads, h = blockIdx.x % p.num_heads, kv_head = h / p.group;
  const int seq = p.rows[3 * row], last = p.rows[3 * row + 1], first = p.rows[3 * row + 2];
  const int64_t at = int64_t{blockIdx.x};
  double* scores = p.scores + at * p.max_keys;
  const double ks = p.k_scales ? p.k_scales[kv_head] : 1, vs = p.v_scales ? p.v_scales[kv_head] : 1;
  auto head_of = [&](int key) {
    const int64_t block = p.block_table[int64_t{seq} * p.max_blocks + key / p.block_size];
    return p.kv + block * p.block_bytes + int64_t{kv_head} * p.head_bytes;
  };
  double largest = -INFINITY;
  for (int key = first + threadIdx.x; key <= last; key += kThreads) {
    const uint8_t* head = head_of(key);
    double s = 0;
    for (int d = 0; d < p.head_dim; d++) {
      const int64_t i = at * p.head_dim + d;
      const double q = p.q_is_bf16 ? __bfloat162float(static_cast<const __nv_bfloat16*>(p.q)[i])
                                   : __half2float(static_cast<const __half*>(p.q)[i]);
      s += q * rounded(element(p, head, key % p.block_size, d, false, ks), p.rounding);
    }
    s *= p.scale;
    if (p.softcap > 0) s = p.softcap * tanh(s / p.softcap);
    scores[key - first] = s;
    largest = fmax(largest, s);
  }
  largest = reduce(largest, true);
  const double sink = p.sinks && last >= 0 ? p.sinks[h] : -INFINITY;
  largest = fmax(largest, sink);
  double sum = 0;
  for (int key = first + threadIdx.x; key <= last; key += kThreads)
    sum += exp(scores[key - first] - largest);
  sum = reduce(sum, false) + (isinf(sink) ? 0 : exp(sink - largest));
  for (int d = threadIdx.x; d < p.head_dim; d += kThreads) {
    double o = 0;
    for (int key = first; key <= last; key++)
      o += exp(scores[key - first] - largest) *
           rounded(element(p, head_of(key), key % p.block_size, d, true, vs), p.rounding);
    p.out[at * p.head_dim + d] = sum > 0 ? o / sum : 0;
  }
  if (threadIdx.x == 0) p.log_sum_exp[at] = sum > 0 ? largest + log(sum) : -INFINITY;
}

__device__ uint32_t mix(uint32_t x) {
  x ^= x >> 16;
  x *= 0x7feb352dU;
  x ^= x >> 15;
  x *= 0x846ca68bU;
  x ^= x >> 16;
  return x;
}

__global__ void random_kernel(RandomParams p) {
  const int64_t n = p.n * p.width;
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < n;
       i += int64_t{gridDim.x} * blockDim.x) {
    const uint64_t id = p.ids ? p.ids[i / p.width] : i / p.width;
    const uint32_t x = mix(mix(static_cast<uint32_t>(id) + p.seed * 0x9E3779B9U) ^
                           mix(static_cast<uint32_t>(id >> 32) * 0x85EBCA6BU + i % p.width));
    const int sum = (x & 255) + (x >> 8 & 255) + (x >> 16 & 255) + (x >> 24);
    const float value = (sum - 510) * (p.gain / 147.8f);
    if (p.is_bf16)
      static_cast<__nv_bfloat16*>(p.rows)[i] = __float2bfloat16_rn(value);
    else
      static_cast<__half*>(p.rows)[i] = __float2half_rn(value);
  }
}

__global__ void read_kernel(ReadParams p) {
  const int64_t n = p.n * p.kv_heads * 2 * p.head_dim;
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < n;
       i += int64_t{gridDim.x} * blockDim.x) {
    const int dim = i % p.head_dim, is_v = i / p.head_dim % 2;
    const int head = i / p.head_dim / 2 % p.kv_heads;
    const int64_t slot = p.slots[i / p.head_dim / 2 / p.kv_heads];
    const uint8_t* base = p.kv + slot / p.block_size * p.block_bytes + int64_t{head} * p.head_bytes;
    const float* scales = is_v ? p.v_scales : p.k_scales;
    p.out[i] = static_cast<float>(
        element(p, base, slot % p.block_size, dim, is_v, scales ? scales[head] : 1.f));
  }
}

}  // namespace

void launch_reference(const ReferenceParams& params, int32_t num_rows, cudaStream_t stream) {
  reference_kernel<<<num_rows * params.num_heads, kThreads, 0, stream>>>(params);
  CUDA_CHECK(cudaGetLastError());
}
void launch_random(const RandomParams& params, cudaStream_t stream) {
  random_kernel<<<1056, 256, 0, stream>>>(params);
  CUDA_CHECK(cudaGetLastError());
}
void launch_read(const ReadParams& params, cudaStream_t stream) {
  read_kernel<<<1056, 256, 0, stream>>>(params);
  CUDA_CHECK(cudaGetLastError());
}

}  // namespace pagoda::cuda
