// prefill_merge: out[r, h] = what the spans of row r's keys gave, folded in index order and divided
//   by the sum of weights, as decode's partials fold (decode_fold.cuh).
//   In: the plan's merges, part_out [parts][H][D] f32, part_sum [parts][H]. Out: out [T, H, D] bf16
//   or f16, log_sum_exp [T, H] f32.
//   A warp folds 128 dims of one (row, head), 4 a lane, and goes on to the next.
//   Moves spans x H x (4 D + 8) bytes a row, mostly from L2; 2 FLOPs each.
//   Limits: D a multiple of 16. Must equal softmax over all the keys (reference::attention).
#include <algorithm>

#include "backend/cuda/decode_fold.cuh"
#include "backend/cuda/mma.cuh"
#include "backend/cuda/prefill_merge.h"

namespace pagoda::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kBlocks = 8;  // per multiprocessor: 64 registers
constexpr int kInFlight = 5;

struct Place {
  PrefillMerge rows;
  int row, head, dim;
};

__device__ __forceinline__ Partial<4> load_part(const PrefillMergeParams& p,
                                                const Place& at,
                                                int span) {
  const int part = at.rows.part + span * at.rows.num_rows + at.row;
  const int64_t index = int64_t{part} * p.heads + at.head;
  return load_partial(p.part_out, p.part_sum, index, p.head_dim, at.dim);
}

__device__ __forceinline__ void merge(const PrefillMergeParams& p, const Place& at) {
  Partial<4> total;
  for (int span0 = 0; span0 < at.rows.num_spans; span0 += kInFlight) {
    Partial<4> next[kInFlight];
#pragma unroll
    for (int i = 0; i < kInFlight; i++)
      if (span0 + i < at.rows.num_spans) next[i] = load_part(p, at, span0 + i);
#pragma unroll
    for (int i = 0; i < kInFlight; i++)
      if (span0 + i < at.rows.num_spans) fold(total, next[i]);
  }
  const Ending end = finish(total.maximum, total.sum, p.sinks, at.head);
  const int64_t token = at.rows.row + at.row;
  const float* x = total.values;
  uint2 words;
  if (p.out_is_bf16)
    words = {pack16<true>(x[0] * end.gain, x[1] * end.gain),
             pack16<true>(x[2] * end.gain, x[3] * end.gain)};
  else
    words = {pack16<false>(x[0] * end.gain, x[1] * end.gain),
             pack16<false>(x[2] * end.gain, x[3] * end.gain)};
  const int64_t column = int64_t{at.head} * p.head_dim + at.dim;
  *reinterpret_cast<uint2*>(p.out + token * p.out_row_bytes + column * 2) = words;
  if (at.dim == 0 && p.log_sum_exp)
    p.log_sum_exp[token * p.sum_row_floats + at.head] = end.log_sum_exp;
}

__global__ void __launch_bounds__(kWarps * 32, kBlocks)
    merge_kernel(const __grid_constant__ PrefillMergeParams p) {
  pdl_launch_next();
  const int slices = (p.head_dim + 127) / 128, per_row = p.heads * slices;
  const int per_merge = p.tile_rows * per_row, total = __ldg(&p.header->num_merges) * per_merge;
  pdl_wait();
  for (int work = blockIdx.x * kWarps + threadIdx.x / 32; work < total;
       work += gridDim.x * kWarps) {
    const int index = work / per_merge, rest = work - index * per_merge;
    Place at;
    at.row = rest / per_row;
    at.head = (rest - at.row * per_row) / slices;
    at.dim = (rest % slices * 32 + threadIdx.x % 32) * 4;
    const int4 words = __ldg(reinterpret_cast<const int4*>(p.merges + index));
    at.rows = {words.x, words.y, words.z, words.w};
    if (at.row < at.rows.num_rows && at.dim < p.head_dim) merge(p, at);
  }
}

}  // namespace

void launch_prefill_merge(const PrefillMergeParams& params, const LaunchOptions& options) {
  const int slices = (params.head_dim + 127) / 128;
  const int64_t work = int64_t{params.max_merges} * params.tile_rows * params.heads * slices;
  Launch launch;
  launch.grid = static_cast<int>(std::min<int64_t>((work + kWarps - 1) / kWarps,
                                                   int64_t{params.num_multiprocessors} * kBlocks));
  launch.block = 32 * kWarps;
  prefer_shared_memory(reinterpret_cast<const void*>(merge_kernel));
  launch_kernel(merge_kernel, launch, options, params);
}

}  // namespace pagoda::cuda
