// norm, activation, rope_angles, gather_rows: operations of one row each, memory-bound.
//   In, out: rows of f32, f16 or bf16 numbers (row_params.h); arithmetic in f32, angles in f64.
//   norm: a block of 256 threads a row, which lies in shared memory as f32 while it is summed.
//   activation, gather_rows, rope_angles: a thread a number (or 16 bytes), blocks over (row, part).
//   Moves each row once in and once out; 5 to 20 FLOPs an element.
//   Limits: C <= 48K columns (norm; limits.cpp), pairs <= 256 (rope_angles; rows.cpp).
//   Must equal the reference's norm, activation, rope_angles, gather_rows within rounding.
#include "backend/cuda/numbers.cuh"
#include "backend/cuda/ptx.cuh"

namespace pagoda::cuda {
namespace {

constexpr int kThreads = 256;

// What normalises a row in shared memory: y = (x - mean) * scale.
struct Moments {
  float mean, scale;
};

__device__ __forceinline__ Moments moments_of(const NormParams& p, const float* row) {
  Moments m = {0.f, 0.f};
  if (p.is_layer_norm) {
    float sum = 0.f;
    for (int i = threadIdx.x; i < p.num_cols; i += kThreads) sum += row[i];
    m.mean = block_sum<kThreads>(sum) / p.num_cols;
  }
  float squares = 0.f;
  for (int i = threadIdx.x; i < p.num_cols; i += kThreads)
    squares += (row[i] - m.mean) * (row[i] - m.mean);
  m.scale = 1.f / sqrtf(block_sum<kThreads>(squares) / p.num_cols + p.epsilon);
  return m;
}

__global__ void __launch_bounds__(kThreads) norm_kernel(const __grid_constant__ NormParams p) {
  extern __shared__ float row[];
  const int64_t t = blockIdx.x;
  pdl_wait();
  pdl_launch_next();
  // Each thread meets the same columns in every loop: only sums cross threads.
  Moments post = {0.f, 1.f};
  if (p.post_norm) {
    for (int i = threadIdx.x; i < p.num_cols; i += kThreads) row[i] = read_number(p.add, t, i);
    post = moments_of(p, row);
  }
  for (int i = threadIdx.x; i < p.num_cols; i += kThreads) {
    float x = read_number(p.x, t, i);
    if (p.add.data) {
      const float add = p.post_norm ? (row[i] - post.mean) * post.scale * p.post_norm[i]
                                    : read_number(p.add, t, i);
      x += add;
      write_number(p.x, t, i, x);
    }
    row[i] = x;
  }
  if (!p.out.data) return;
  const Moments m = moments_of(p, row);
  for (int i = threadIdx.x; i < p.num_cols; i += kThreads) {
    float y = (row[i] - m.mean) * m.scale;
    if (p.weight) y *= p.weight[i];
    if (p.bias) y += p.bias[i];
    write_number(p.out, t, i, y);
  }
}

__device__ __forceinline__ float activated(Function function, float x) {
  constexpr float kRoot2OverPi = 0.7978845608028654f, kRootHalf = 0.7071067811865476f;
  switch (function) {
    case Function::silu:
      return x / (1.f + expf(-x));
    case Function::gelu_tanh:  // (1 + tanh u) / 2 = 1 / (1 + e^-2u), which cancels nothing
      return x / (1.f + expf(-2.f * kRoot2OverPi * (x + 0.044715f * x * x * x)));
    case Function::gelu_erf:
      return 0.5f * x * erfcf(-x * kRootHalf);
    default:
      return fmaxf(x, 0.f);
  }
}

__global__ void __launch_bounds__(kThreads)
    activation_kernel(const __grid_constant__ ActivationParams p) {
  pdl_wait();
  pdl_launch_next();
  const int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x;
  const int64_t t = i / p.num_cols, col = i % p.num_cols;
  if (t >= p.num_rows) return;
  const float y = activated(p.function, read_number(p.x, t, col));
  write_number(p.out, t, col, p.is_gated ? y * read_number(p.x, t, p.num_cols + col) : y);
}

__global__ void __launch_bounds__(kThreads) angles_kernel(const __grid_constant__ AnglesParams p) {
  pdl_wait();
  pdl_launch_next();
  const int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x;
  const int64_t t = i / p.num_pairs;
  if (t >= p.num_rows) return;
  constexpr double kInversePi = 0.31830988618379067154;
  double sine, cosine;
  sincospi(
      double(p.positions[t]) * double(p.inv_freq[i % p.num_pairs]) * kInversePi, &sine, &cosine);
  p.out[2 * i] = static_cast<float>(cosine * p.magnitude);
  p.out[2 * i + 1] = static_cast<float>(sine * p.magnitude);
}

// Bytes [begin, begin + 16) of a row.
__global__ void __launch_bounds__(kThreads) gather_kernel(const __grid_constant__ GatherParams p) {
  pdl_wait();
  pdl_launch_next();
  const int parts = (p.row_bytes + 15) / 16;
  const int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x;
  const int64_t r = i / parts;
  if (r >= p.num_rows) return;
  const int begin = static_cast<int>(i % parts) * 16, end = min(begin + 16, p.row_bytes);
  const uint8_t* from = p.x + p.rows[r] * p.x_row_bytes;
  uint8_t* to = p.out + r * p.out_row_bytes;
  const auto at = reinterpret_cast<uint64_t>(from + begin) | reinterpret_cast<uint64_t>(to + begin);
  if (at % 16 == 0 && end - begin == 16)
    *reinterpret_cast<uint4*>(to + begin) = *reinterpret_cast<const uint4*>(from + begin);
  else
    for (int b = begin; b < end; b += 2)
      *reinterpret_cast<uint16_t*>(to + b) = *reinterpret_cast<const uint16_t*>(from + b);
}

int32_t blocks_for(int64_t threads) {
  return static_cast<int32_t>((threads + kThreads - 1) / kThreads);
}

}  // namespace

void launch_norm(const NormParams& params, const LaunchOptions& options) {
  const int32_t bytes = params.num_cols * int32_t{sizeof(float)};
  // Always: with what the sums take, 48 KiB are passed before `bytes` reaches them.
  CUDA_CHECK(cudaFuncSetAttribute(norm_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  launch_kernel(norm_kernel, {params.num_rows, kThreads, bytes}, options, params);
}

void launch_activation(const ActivationParams& params, const LaunchOptions& options) {
  launch_kernel(activation_kernel,
                {blocks_for(int64_t{params.num_rows} * params.num_cols), kThreads, 0},
                options,
                params);
}

void launch_angles(const AnglesParams& params, const LaunchOptions& options) {
  launch_kernel(angles_kernel,
                {blocks_for(int64_t{params.num_rows} * params.num_pairs), kThreads, 0},
                options,
                params);
}

void launch_gather(const GatherParams& params, const LaunchOptions& options) {
  launch_kernel(
      gather_kernel,
      {blocks_for(int64_t{params.num_rows} * ((params.row_bytes + 15) / 16)), kThreads, 0},
      options,
      params);
}

}  // namespace pagoda::cuda
