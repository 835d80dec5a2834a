// embed: rows of the embedding table, dequantised, scaled, with the positions' rows added.
//   In: table [V, C] packed, ids [T]; perhaps positions [max_context, C], position_ids [T].
//   Out: [T, C] f32, f16 or bf16. A thread 8 elements, blocks over (token, group of 8).
//   Moves T C (packed bytes + 2); a few FLOPs an element.
//   Ids and positions within their tables are the caller's promise and are not checked.
//   Must equal the reference's embed within rounding.
#include "backend/cuda/dequantise.cuh"
#include "backend/cuda/numbers.cuh"
#include "backend/cuda/ptx.cuh"

namespace pagoda::cuda {
namespace {

constexpr int kThreads = 256;

__device__ __forceinline__ void load_8(const WeightRows& w, int64_t row, int group, float (&y)[8]) {
  with_kind(w.kind, [&](auto kind) {
    load_weights_8<decltype(kind)::kValue>(w.data + row * w.row_bytes, group, y);
  });
}

__global__ void __launch_bounds__(kThreads) embed_kernel(const __grid_constant__ EmbedParams p) {
  pdl_wait();
  pdl_launch_next();
  const int groups = (p.num_cols + 7) / 8;
  const int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x;
  const int64_t t = i / groups;
  if (t >= p.num_rows) return;
  const int group = static_cast<int>(i % groups);
  float y[8], position[8] = {};
  load_8(p.table, p.ids[t], group, y);
  if (p.positions.data) load_8(p.positions, p.position_ids[t], group, position);
#pragma unroll
  for (int j = 0; j < 8; j++)
    if (8 * group + j < p.num_cols)
      write_number(p.out, t, 8 * group + j, fmaf(y[j], p.scale, position[j]));
}

}  // namespace

void launch_embed(const EmbedParams& params, const LaunchOptions& options) {
  const int64_t threads = int64_t{params.num_rows} * ((params.num_cols + 7) / 8);
  launch_kernel(embed_kernel,
                {static_cast<int32_t>((threads + kThreads - 1) / kThreads), kThreads, 0},
                options,
                params);
}

}  // namespace pagoda::cuda
