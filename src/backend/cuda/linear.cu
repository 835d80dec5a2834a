// linear: out = x wᵀ (+ bias, scale, softcap, residual) for one packed weight, dequantised on the
// way, in f32.
//   In: x [T, C] f32, f16 or bf16; w [N, C] packed; bias [N] f32; residual [T, N]. Out: [T, N].
//   A block does 32 outputs of up to 8 tokens: x lies in shared memory as f32, 1024 columns at a
//   time; a warp has 4 rows of w, lane l elements 8 l … 8 l + 7 of every 256; lanes fold at the
//   end. Moves w once for every 8 tokens, x once for every 32 outputs; 2 T N C FLOPs. Limits,
//   checked by linear.cpp: whole blocks of quantised weights. Must equal the reference's linear
//   within f32 rounding. The order of an output's sum depends on C alone, so a token's bits are its
//   own.
#include "backend/cuda/dequantise.cuh"
#include "backend/cuda/numbers.cuh"
#include "backend/cuda/ptx.cuh"

namespace pagoda::cuda {
namespace {

constexpr int kWarps = 8, kThreads = kWarps * 32;
constexpr int kOutputs = 4;     // of a warp
constexpr int kColumns = 1024;  // of x in shared memory
constexpr int kGroups = kColumns / 8;
constexpr int kBlockOutputs = kWarps * kOutputs;

// Columns of x: the first and the last four of each group of 8 apart, so that 8 lanes read 128
// bytes side by side.
template <int kTokens>
struct Tile {
  float4 x[kTokens][2][kGroups];
};

template <int kTokens>
__device__ __forceinline__ void fill(const LinearParams& p,
                                     Tile<kTokens>& tile,
                                     int64_t first_row,
                                     int first_col) {
  for (int i = threadIdx.x; i < kTokens * kColumns; i += kThreads) {
    const int t = i / kColumns, at = i % kColumns, col = first_col + at;
    const bool there = first_row + t < p.num_rows && col < p.num_cols;
    reinterpret_cast<float*>(&tile.x[t][at % 8 / 4][at / 8])[at % 4] =
        there ? read_number(p.x, first_row + t, col) : 0.f;
  }
}

__device__ __forceinline__ float warp_sum(float x) {
#pragma unroll
  for (int d = 16; d > 0; d /= 2) x += __shfl_xor_sync(~0u, x, d);
  return x;
}

__device__ __forceinline__ void write_output(const LinearParams& p, int64_t t, int n, float sum) {
  if (p.bias) sum += p.bias[n];
  sum *= p.scale;
  if (p.softcap > 0.f) sum = p.softcap * tanhf(sum / p.softcap);
  if (p.residual.data) sum += read_number(p.residual, t, n);
  write_number(p.out, t, n, sum);
}

template <WeightKind kKind, int kTokens>
__global__ void __launch_bounds__(kThreads) linear_kernel(const __grid_constant__ LinearParams p) {
  extern __shared__ __align__(16) uint8_t shared[];
  auto& tile = *reinterpret_cast<Tile<kTokens>*>(shared);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int output_tiles = (p.num_outputs + kBlockOutputs - 1) / kBlockOutputs;
  const int first_output = blockIdx.x % output_tiles * kBlockOutputs + warp * kOutputs;
  const int64_t first_row = int64_t{blockIdx.x / output_tiles} * kTokens;
  const int groups = (p.num_cols + 7) / 8;
  pdl_wait();
  pdl_launch_next();
  float sums[kTokens][kOutputs] = {};
  for (int first_group = 0; first_group < groups; first_group += kGroups) {
    __syncthreads();
    fill<kTokens>(p, tile, first_row, first_group * 8);
    __syncthreads();
    const int end = min(kGroups, groups - first_group);
    for (int g = lane; g < end; g += 32) {
      float w[kOutputs][8];
#pragma unroll
      for (int n = 0; n < kOutputs; n++) {
        const int64_t row = min(first_output + n, p.num_outputs - 1);
        load_weights_8<kKind>(p.weight.data + row * p.weight.row_bytes, first_group + g, w[n]);
      }
#pragma unroll
      for (int t = 0; t < kTokens; t++) {
        const float4 a = tile.x[t][0][g], b = tile.x[t][1][g];
        const float x[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
#pragma unroll
        for (int n = 0; n < kOutputs; n++)
#pragma unroll
          for (int j = 0; j < 8; j++) sums[t][n] = fmaf(x[j], w[n][j], sums[t][n]);
      }
    }
  }
#pragma unroll
  for (int t = 0; t < kTokens; t++)
#pragma unroll
    for (int n = 0; n < kOutputs; n++) {
      const float sum = warp_sum(sums[t][n]);
      if (lane == (t * kOutputs + n) % 32 && first_row + t < p.num_rows &&
          first_output + n < p.num_outputs)
        write_output(p, first_row + t, first_output + n, sum);
    }
}

template <int kTokens>
void launch(const LinearParams& p, const LaunchOptions& options) {
  const int64_t blocks = int64_t{(p.num_outputs + kBlockOutputs - 1) / kBlockOutputs} *
                         ((p.num_rows + kTokens - 1) / kTokens);
  constexpr void (*kKernels[])(LinearParams) = {linear_kernel<WeightKind::f32, kTokens>,
                                                linear_kernel<WeightKind::f16, kTokens>,
                                                linear_kernel<WeightKind::bf16, kTokens>,
                                                linear_kernel<WeightKind::q8_0, kTokens>,
                                                linear_kernel<WeightKind::q4_0, kTokens>,
                                                linear_kernel<WeightKind::q4_1, kTokens>,
                                                linear_kernel<WeightKind::q5_0, kTokens>,
                                                linear_kernel<WeightKind::q5_1, kTokens>,
                                                linear_kernel<WeightKind::q4_k, kTokens>,
                                                linear_kernel<WeightKind::q5_k, kTokens>,
                                                linear_kernel<WeightKind::q6_k, kTokens>};
  launch_kernel(kKernels[static_cast<int>(p.weight.kind)],
                {static_cast<int32_t>(blocks), kThreads, int32_t{sizeof(Tile<kTokens>)}},
                options,
                p);
}

}  // namespace

void launch_linear(const LinearParams& params, const LaunchOptions& options) {
  if (params.num_rows == 1) return launch<1>(params, options);
  launch<8>(params, options);
}

}  // namespace pagoda::cuda
