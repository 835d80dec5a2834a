// merge: folds a row's partials into its answer, sections in index order, chunks within sections.
//   In: the plan's rows, part_out [parts][H][D] f32, part_sum [parts][H]. Out: out [T, H * D],
//   log_sum_exp [T, H]. Rows of one part are the decode kernel's own and are skipped.
//   few: a warp folds 128 dims of one (row, head), 4 a lane. sections, chunks: a block brings 32
//   dims of one (row, head), sections side by side (chunks: folds them), then one warp folds those.
//   few and sections are small enough to wait beside the decode kernel's blocks.
//   Moves parts x H x (4 D + 8) bytes; 2 FLOPs per byte: latency is all that it costs.
//   Must equal what the decode kernel does in registers: the same fold, in the same order.
#include <algorithm>

#include "backend/cuda/decode_fold.cuh"
#include "backend/cuda/merge.h"

namespace pagoda::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kChunkWarps = 16;    // at most, of merge_chunks
constexpr int kFewBlocks = 9;      // per multiprocessor: 56 registers
constexpr int kSectionBlocks = 6;  // 80 registers

template <int kN>
__device__ __forceinline__ Partial<kN> load_partial(const MergeParams& p, int64_t index, int dim) {
  Partial<kN> x;
  const float2 sum = __ldcg(reinterpret_cast<const float2*>(p.part_sum + index));
  x.maximum = sum.x, x.sum = sum.y;
  const float* from = p.part_out + index * p.head_dim + dim;
  if constexpr (kN == 4)
    *reinterpret_cast<float4*>(x.values) = __ldcg(reinterpret_cast<const float4*>(from));
  else
    x.values[0] = __ldcg(from);
  return x;
}

template <int kN>
__device__ __forceinline__ void write_answer(
    const MergeParams& p, const DecodeRow& row, int head, int dim, const Partial<kN>& x) {
  const Ending end = finish(x.maximum, x.sum, p.sinks, head);
  const float gain = end.gain * (p.v_scales ? p.v_scales[head / p.group] : 1.f);
  uint8_t* out = static_cast<uint8_t*>(p.out) + row.token * p.out_row_bytes;
#pragma unroll
  for (int i = 0; i < kN; i++)
    store_out(out, head * p.head_dim + dim + i, x.values[i] * gain, p.out_is_bf16);
  if (dim == 0 && p.log_sum_exp)
    p.log_sum_exp[row.token * p.sum_row_floats + head] = end.log_sum_exp;
}

__device__ __forceinline__ DecodeRow read_row(const MergeParams& p, int index) {
  DecodeRow row;
  const int4* from = reinterpret_cast<const int4*>(p.rows + index);
  reinterpret_cast<int4*>(&row)[0] = __ldg(from);
  reinterpret_cast<int4*>(&row)[1] = __ldg(from + 1);
  return row;
}

__global__ void __launch_bounds__(kWarps * 32, kFewBlocks)
    merge_few(const __grid_constant__ MergeParams p) {
  constexpr int kInFlight = 4;
  pdl_launch_next();
  const int slices = (p.head_dim + 127) / 128;
  const int work = (blockIdx.x * kWarps + threadIdx.x / 32) / slices;
  const int dim = ((blockIdx.x * kWarps + threadIdx.x / 32) % slices * 32 + threadIdx.x % 32) * 4;
  const int index = work / p.num_heads, head = work % p.num_heads;
  const bool present = index < p.header->num_rows;
  const DecodeRow row = present ? read_row(p, index) : DecodeRow{};
  const int per_section = kChunksPerSection / p.header->chunks_per_part;  // 1 or 8
  pdl_wait();
  if (!present || row.num_parts <= 1 || dim >= p.head_dim) return;
  Partial<4> total, section;
  const int end = row.first_part + row.num_parts;
  for (int part0 = row.first_part; part0 < end; part0 += kInFlight) {
    Partial<4> next[kInFlight];
#pragma unroll
    for (int i = 0; i < kInFlight; i++)
      if (part0 + i < end)
        next[i] =
            load_partial<4>(p, int64_t{row.part_offset + part0 + i} * p.num_heads + head, dim);
#pragma unroll
    for (int i = 0; i < kInFlight; i++) {
      const int part = part0 + i;
      if (part >= end) break;
      fold(section, next[i]);
      if ((part + 1) % per_section == 0 || part + 1 == end) {
        fold(total, section);
        section = Partial<4>();
      }
    }
  }
  write_answer(p, row, head, dim, total);
}

// Weights of a chain of folds, found side by side: before[i] for what sections 0 .. i - 1 gave,
// own[i] for section i; the running maximum is what makes folds a chain. One warp calls it.
struct Weights {
  float before, own;
};
__device__ __forceinline__ void weigh_sections(const float2* sums, Weights* weights, int count) {
  for (int base = 0, lane = threadIdx.x; base < count; base += 32) {
    const int i = base + lane;
    float running = kNoMaximum;  // of sections 0 .. i - 1
    if (base > 0) running = weights[-1].before;
    float m = i < count ? sums[i].x : kNoMaximum;
    const float own = m;
#pragma unroll
    for (int d = 1; d < 32; d *= 2) {
      const float left = __shfl_up_sync(~0u, m, d);
      if (lane >= d) m = fmaxf(m, left);
    }
    const float upto = fmaxf(m, running);  // maximum of 0 .. i
    float earlier = __shfl_up_sync(~0u, upto, 1);
    if (lane == 0) earlier = running;
    if (i < count) weights[i] = {exp2_approx(earlier - upto), exp2_approx(own - upto)};
    const float last = __shfl_sync(~0u, upto, 31);
    __syncwarp();
    if (lane == 0) weights[-1].before = last;  // carried over: the maximum so far
    __syncwarp();
  }
}

// 32 dims of a (row, head), and what a block brings of its sections to shared memory.
struct ManyParts {
  DecodeRow row = {};
  int head, dim;
  int first, count;  // sections
  float* values;     // [sections][32]
  float2* sums;      // [sections], then 1 + weights
};
__device__ __forceinline__ ManyParts find_parts(const MergeParams& p,
                                                float* smem,
                                                int per_section) {
  const int slices = (p.head_dim + 31) / 32, work = blockIdx.x / slices;
  if (p.header->chunks_per_part * per_section != kChunksPerSection) __trap();  // another plan's
  ManyParts x;
  x.head = work % p.num_heads;
  x.dim = blockIdx.x % slices * 32;
  if (work / p.num_heads < p.header->num_rows) x.row = read_row(p, work / p.num_heads);
  const int end = x.row.first_part + x.row.num_parts;
  x.first = x.row.first_part / per_section;
  x.count = (end + per_section - 1) / per_section - x.first;
  x.values = smem;
  x.sums = reinterpret_cast<float2*>(smem + p.max_sections * 32);
  return x;
}

__device__ __forceinline__ void fold_sections(const MergeParams& p, const ManyParts& x) {
  __syncthreads();
  if (threadIdx.x >= 32) return;
  Weights* weights = reinterpret_cast<Weights*>(x.sums + p.max_sections) + 1;
  weigh_sections(x.sums, weights, x.count);
  Partial<1> total;
#pragma unroll 8
  for (int s = 0; s < x.count; s++) {
    const Weights w = weights[s];
    const float value = x.values[s * 32 + threadIdx.x];
    total.sum = __fmaf_rn(total.sum, w.before, __fmul_rn(x.sums[s].y, w.own));
    total.values[0] = __fmaf_rn(total.values[0], w.before, __fmul_rn(value, w.own));
  }
  total.maximum = weights[-1].before;
  const int dim = x.dim + static_cast<int>(threadIdx.x);
  if (dim < p.head_dim) write_answer(p, x.row, x.head, dim, total);
}

// 8 lanes a section, 4 dims each; 4 sections of a lane on their way at once.
__global__ void __launch_bounds__(kWarps * 32, kSectionBlocks)
    merge_sections(const __grid_constant__ MergeParams p) {
  constexpr int kLanes = 8, kSide = kWarps * 32 / kLanes, kInFlight = 4;
  extern __shared__ __align__(16) float smem[];
  pdl_launch_next();
  const ManyParts x = find_parts(p, smem, 1);
  pdl_wait();
  if (x.row.num_parts <= 1) return;
  const int lane = threadIdx.x % kLanes, dim = min(x.dim + 4 * lane, p.head_dim - 4);
  for (int s0 = threadIdx.x / kLanes; s0 < x.count; s0 += kSide * kInFlight) {
    Partial<4> next[kInFlight];
#pragma unroll
    for (int i = 0; i < kInFlight; i++)
      if (s0 + i * kSide < x.count)
        next[i] = load_partial<4>(
            p, int64_t{x.row.part_offset + x.first + s0 + i * kSide} * p.num_heads + x.head, dim);
#pragma unroll
    for (int i = 0; i < kInFlight; i++) {
      const int s = s0 + i * kSide;
      if (s >= x.count) break;
      *reinterpret_cast<float4*>(x.values + s * 32 + 4 * lane) =
          *reinterpret_cast<const float4*>(next[i].values);
      if (lane == 0) x.sums[s] = make_float2(next[i].maximum, next[i].sum);
    }
  }
  fold_sections(p, x);
}

// A warp a section, a dim a lane; the chunks of two sections on their way at once.
__global__ void __launch_bounds__(kChunkWarps * 32, 1)
    merge_chunks(const __grid_constant__ MergeParams p) {
  extern __shared__ __align__(16) float smem[];
  pdl_launch_next();
  const ManyParts x = find_parts(p, smem, kChunksPerSection);
  pdl_wait();
  if (x.row.num_parts <= 1) return;
  const int lane = threadIdx.x % 32, warps = blockDim.x / 32;
  const int end = x.row.first_part + x.row.num_parts, dim = min(x.dim + lane, p.head_dim - 1);
  for (int s = threadIdx.x / 32; s < x.count; s += 2 * warps) {
    Partial<1> next[2][kChunksPerSection];
#pragma unroll
    for (int n = 0; n < 2; n++)
#pragma unroll
      for (int i = 0; i < kChunksPerSection; i++) {
        const int part = (x.first + s + n * warps) * kChunksPerSection + i;
        if (part >= x.row.first_part && part < end)
          next[n][i] =
              load_partial<1>(p, int64_t{x.row.part_offset + part} * p.num_heads + x.head, dim);
      }
#pragma unroll
    for (int n = 0; n < 2; n++) {
      Partial<1> section;
#pragma unroll
      for (int i = 0; i < kChunksPerSection; i++) fold(section, next[n][i]);
      if (s + n * warps >= x.count) break;
      x.values[(s + n * warps) * 32 + lane] = section.values[0];
      if (lane == 0) x.sums[s + n * warps] = make_float2(section.maximum, section.sum);
    }
  }
  fold_sections(p, x);
}

int shared_bytes(const MergeParams& p) {
  return p.max_parts <= kFewParts ? 0 : p.max_sections * (32 * 4 + 16) + 8;
}

}  // namespace

int32_t merge_room(const MergeParams& params) {
  constexpr int kReserved = 1024;  // of the driver
  return kReserved + shared_bytes(params);
}

void launch_merge(const MergeParams& params, const LaunchOptions& options) {
  const bool few = params.max_parts <= kFewParts, chunks = params.parts_are_chunks;
  const int slices = few ? (params.head_dim + 127) / 128 : (params.head_dim + 31) / 32;
  const int64_t work = int64_t{params.max_rows} * params.num_heads * slices;
  Launch launch;
  launch.grid = static_cast<int>(few ? (work + kWarps - 1) / kWarps : work);
  launch.block = 32 * (few || !chunks ? kWarps : std::clamp(params.max_sections, 2, kChunkWarps));
  launch.shared_bytes = shared_bytes(params);
  auto* kernel = few ? merge_few : chunks ? merge_chunks : merge_sections;
  if (launch.shared_bytes > (48 << 10))
    CUDA_CHECK(cudaFuncSetAttribute(
        kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, launch.shared_bytes));
  prefer_shared_memory(reinterpret_cast<const void*>(kernel));
  launch_kernel(kernel, launch, options, params);
}

}  // namespace pagoda::cuda
