// merge: folds a row's partials into its answer, sections in index order, chunks within sections.
//   In: the plan's rows, part_out [parts][H][D] f32, part_sum [parts][H]. Out: out [T, H * D],
//   log_sum_exp [T, H]. Rows of one part are the decode kernel's own and are skipped.
//   few: a warp folds 128 dims of one (row, head), 4 a lane. sections, chunks: a block brings 32 or
//   128 dims of one (row, head) to shared memory, sections side by side (chunks are folded on the
//   way), then folds those.
//   All but the chunks of many sections are small enough to wait beside the decode kernel's blocks.
//   Moves parts x H x (4 D + 8) bytes; 2 FLOPs per byte: latency is all that it costs.
//   Must equal what the decode kernel does in registers: the same fold, in the same order.
#include <algorithm>

#include "backend/cuda/decode_fold.cuh"
#include "backend/cuda/merge.h"

namespace pagoda::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kChunkWarps = 16;  // at most, of merge_chunks
constexpr int kFewSections = 8;  // up to here merge_chunks takes 128 dims a block, else 32
constexpr int kBlocks = 9;       // of merge_few and merge_sections per multiprocessor

__device__ __forceinline__ Partial<4> load_partial(const MergeParams& p, int64_t index, int dim) {
  return load_partial(p.part_out, p.part_sum, index, p.head_dim, dim);
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

__global__ void __launch_bounds__(kWarps * 32, kBlocks)
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
        next[i] = load_partial(p, int64_t{row.part_offset + part0 + i} * p.num_heads + head, dim);
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

// What a block brings of kDims dims of a (row, head) to shared memory: its sections.
template <int kDims>
struct Sections {
  DecodeRow row = {};
  int head, dim;
  int first, count;
  float* values;  // [sections][kDims]
  float2* sums;   // [sections]

  __device__ __forceinline__ Sections(const MergeParams& p, float* smem, int parts_per_section) {
    const int slices = (p.head_dim + kDims - 1) / kDims, work = blockIdx.x / slices;
    if (p.header->chunks_per_part * parts_per_section != kChunksPerSection)
      __trap();  // another plan's
    head = work % p.num_heads;
    dim = blockIdx.x % slices * kDims;
    if (work / p.num_heads < p.header->num_rows) row = read_row(p, work / p.num_heads);
    first = row.first_part / parts_per_section;
    count = (row.first_part + row.num_parts + parts_per_section - 1) / parts_per_section - first;
    values = smem;
    sums = reinterpret_cast<float2*>(smem + p.max_sections * kDims);
  }

  // Section s, of which this thread has 4 dims from dim + at.
  __device__ __forceinline__ void put(int s, int at, const Partial<4>& x) const {
    *reinterpret_cast<float4*>(values + s * kDims + at) =
        *reinterpret_cast<const float4*>(x.values);
    if (at == 0) sums[s] = make_float2(x.maximum, x.sum);
  }

  // A thread a dim; 8 sections' weights are found side by side, only sums are a chain.
  __device__ __forceinline__ void fold_all(const MergeParams& p) const {
    constexpr int kAtOnce = 8;
    __syncthreads();
    const int at = threadIdx.x;
    if (at >= kDims || dim + at >= p.head_dim) return;
    Partial<1> total;
    for (int s0 = 0; s0 < count; s0 += kAtOnce) {
      Partial<1> next[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; i++)
        if (s0 + i < count) {
          next[i].maximum = sums[s0 + i].x, next[i].sum = sums[s0 + i].y;
          next[i].values[0] = values[(s0 + i) * kDims + at];
        }
#pragma unroll
      for (int i = 0; i < kAtOnce; i++) fold(total, next[i]);
    }
    write_answer(p, row, head, dim + at, total);
  }
};

// 8 lanes a section, 4 sections of a lane on their way at once.
__global__ void __launch_bounds__(kWarps * 32, kBlocks)
    merge_sections(const __grid_constant__ MergeParams p) {
  constexpr int kLanes = 8, kSide = kWarps * 32 / kLanes, kInFlight = 4;
  extern __shared__ __align__(16) float smem[];
  pdl_launch_next();
  const Sections<4 * kLanes> x(p, smem, 1);
  pdl_wait();
  if (x.row.num_parts <= 1) return;
  const int at = threadIdx.x % kLanes * 4, dim = min(x.dim + at, p.head_dim - 4);
  for (int s0 = threadIdx.x / kLanes; s0 < x.count; s0 += kSide * kInFlight) {
    Partial<4> next[kInFlight];
#pragma unroll
    for (int i = 0; i < kInFlight; i++)
      if (s0 + i * kSide < x.count)
        next[i] = load_partial(
            p, int64_t{x.row.part_offset + x.first + s0 + i * kSide} * p.num_heads + x.head, dim);
#pragma unroll
    for (int i = 0; i < kInFlight; i++)
      if (s0 + i * kSide < x.count) x.put(s0 + i * kSide, at, next[i]);
  }
  x.fold_all(p);
}

// kLanes lanes a section, its chunks on their way at once.
template <int kLanes>
__global__ void __launch_bounds__(kChunkWarps * 32, 1)
    merge_chunks(const __grid_constant__ MergeParams p) {
  extern __shared__ __align__(16) float smem[];
  pdl_launch_next();
  const Sections<4 * kLanes> x(p, smem, kChunksPerSection);
  pdl_wait();
  if (x.row.num_parts <= 1) return;
  const int at = threadIdx.x % kLanes * 4, dim = min(x.dim + at, p.head_dim - 4);
  const int end = x.row.first_part + x.row.num_parts;
  for (int s = threadIdx.x / kLanes; s < x.count; s += blockDim.x / kLanes) {
    Partial<4> next[kChunksPerSection], section;
#pragma unroll
    for (int i = 0; i < kChunksPerSection; i++) {
      const int part = (x.first + s) * kChunksPerSection + i;
      if (part >= x.row.first_part && part < end)
        next[i] = load_partial(p, int64_t{x.row.part_offset + part} * p.num_heads + x.head, dim);
    }
#pragma unroll
    for (int i = 0; i < kChunksPerSection; i++) fold(section, next[i]);
    x.put(s, at, section);
  }
  x.fold_all(p);
}

// How a launch is cut: a warp to a (row, head) of few parts; else a block to dims of one.
struct Cut {
  int dims, lanes;  // of a block or warp; of a part
  int threads;
  int shared_bytes;
};
Cut cut_of(const MergeParams& p) {
  if (p.max_parts <= kFewParts) return {128, 32, 32 * kWarps, 0};
  const int lanes = p.parts_are_chunks && p.max_sections <= kFewSections ? 32 : 8;
  int threads = 32 * kWarps;
  if (p.parts_are_chunks)
    threads = std::clamp((p.max_sections * lanes + 31) / 32, lanes / 8, kChunkWarps) * 32;
  return {4 * lanes, lanes, threads, p.max_sections * (4 * lanes * 4 + 8)};
}

}  // namespace

int32_t merge_room(const MergeParams& params) {
  constexpr int kReserved = 1024;  // of the driver
  return kReserved + cut_of(params).shared_bytes;
}

void launch_merge(const MergeParams& params, const LaunchOptions& options) {
  const bool few = params.max_parts <= kFewParts;
  const Cut cut = cut_of(params);
  const int slices = (params.head_dim + cut.dims - 1) / cut.dims;
  const int64_t work = int64_t{params.max_rows} * params.num_heads * slices;
  Launch launch;
  launch.grid = static_cast<int>(few ? (work + kWarps - 1) / kWarps : work);
  launch.block = cut.threads;
  launch.shared_bytes = cut.shared_bytes;
  auto* kernel = few                        ? merge_few
                 : !params.parts_are_chunks ? merge_sections
                 : cut.lanes == 32          ? merge_chunks<32>
                                            : merge_chunks<8>;
  if (launch.shared_bytes > (48 << 10))
    CUDA_CHECK(cudaFuncSetAttribute(
        kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, launch.shared_bytes));
  prefer_shared_memory(reinterpret_cast<const void*>(kernel));
  launch_kernel(kernel, launch, options, params);
}

}  // namespace pagoda::cuda
