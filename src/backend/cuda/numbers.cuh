// One number of a row, read as f32 and written in the row's type; sums over a thread block in an
// order that depends on the block's size alone.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "backend/cuda/row_params.h"

namespace pagoda::cuda {

__device__ __forceinline__ float read_number(const Rows& rows, int64_t row, int64_t col) {
  const uint8_t* at = rows.data + row * rows.row_bytes;
  switch (rows.numbers) {
    case Numbers::f32:
      return reinterpret_cast<const float*>(at)[col];
    case Numbers::f16:
      return __half2float(reinterpret_cast<const __half*>(at)[col]);
    default:
      return __bfloat162float(reinterpret_cast<const __nv_bfloat16*>(at)[col]);
  }
}

__device__ __forceinline__ void write_number(const Rows& rows,
                                             int64_t row,
                                             int64_t col,
                                             float value) {
  uint8_t* at = rows.data + row * rows.row_bytes;
  switch (rows.numbers) {
    case Numbers::f32:
      reinterpret_cast<float*>(at)[col] = value;
      return;
    case Numbers::f16:
      reinterpret_cast<__half*>(at)[col] = __float2half_rn(value);
      return;
    default:
      reinterpret_cast<__nv_bfloat16*>(at)[col] = __float2bfloat16_rn(value);
  }
}

// Sum over the block's kThreads threads, in all of them. All must call.
template <int kThreads, typename T>
__device__ __forceinline__ T block_sum(T x) {
  __shared__ T of_warp[kThreads / 32];
#pragma unroll
  for (int d = 16; d > 0; d /= 2) x += __shfl_xor_sync(~0u, x, d);
  __syncthreads();  // the last call's sums have been read
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = x;
  __syncthreads();
  T sum = of_warp[0];
#pragma unroll
  for (int w = 1; w < kThreads / 32; w++) sum += of_warp[w];
  return sum;
}

}  // namespace pagoda::cuda
