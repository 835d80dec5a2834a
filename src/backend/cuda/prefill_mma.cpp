#include "backend/cuda/prefill_mma.h"

#include <algorithm>
#include <bit>

#include "backend/cuda/format.h"
#include "backend/cuda/prefill_mma_instances.h"
#include "base/error.h"

namespace pagoda::cuda {
namespace {

bool is_quantised(KvDType dtype) {
  return kv_bits(dtype) < 16;
}

int32_t shared_bytes(const PrefillMmaInstance& instance, KvDType dtype) {
  return is_quantised(dtype) ? instance.quantised_bytes : instance.plain_bytes;
}

const PrefillMmaInstance& find_instance(KvDType dtype, int32_t head_dim) {
  int device = 0, available = 0;
  CUDA_CHECK(cudaGetDevice(&device));
  CUDA_CHECK(cudaDeviceGetAttribute(&available, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  if (KvFormat{dtype}.row_bytes(head_dim) % 16 == 0)
    for (const auto& table : {prefill_mma_hd64_instances(),
                              prefill_mma_hd128_instances(),
                              prefill_mma_hd256_instances()})
      for (const PrefillMmaInstance& i : table)
        if (i.is_bf16 == (dtype == KvDType::bf16) && i.max_head_dim >= head_dim &&
            (i.is_for_quantised || !is_quantised(dtype)) && shared_bytes(i, dtype) <= available)
          return i;
  throw Error("cuda.unsupported",
              "prefill with head size {} over {} KV: supported are sizes up to 256 whose rows in "
              "the cache are a multiple of 16 bytes",
              head_dim,
              name(dtype));
}

PrefillMmaParams make_params(const PrefillLaunch& launch, const PrefillParams& params) {
  const AttentionArgs& args = launch.args;
  const KvFormat& format = args.kv.format;
  PrefillMmaParams p = {};
  static_cast<PrefillParams&>(p) = params;
  p.queries = reinterpret_cast<const uint8_t*>(args.q.data());
  p.q_row_bytes = args.q.row_bytes();
  p.k_scales = format.dtype == KvDType::fp8 ? launch.k_scales : nullptr;
  p.v_scales = format.dtype == KvDType::fp8 ? launch.v_scales : nullptr;
  p.k_scales_offset = static_cast<int32_t>(format.k_scales_offset());
  p.v_scales_offset = static_cast<int32_t>(format.v_scales_offset());
  p.head_dim = format.k_dim;
  p.row_bytes = static_cast<int32_t>(format.row_bytes(format.k_dim));
  p.log_atom_bytes = std::countr_zero(static_cast<uint32_t>(atom_bytes(p.row_bytes)));
  p.format = cuda_format(format.dtype);
  p.q_is_bf16 = args.q.dtype() == DType::bf16;
  // Products take longer by these kernels, and about 4 heads at a time do for all.
  if (launch.section_heads == 0)
    std::fill_n(p.section_heads,
                kCrowds,
                prefill_section_heads(args.num_heads, args.kv.kv_heads, 64, kCrowds - 1));
  return p;
}

}  // namespace

PrefillTileSize prefill_mma_tile(KvDType dtype, int32_t head_dim) {
  const PrefillMmaInstance& instance = find_instance(dtype, head_dim);
  return {instance.tile_rows, instance.tile_keys};
}

void prefill_mma_attention(const PrefillLaunch& launch,
                           const PrefillParams& params,
                           const LaunchOptions& options) {
  const KvFormat& format = launch.args.kv.format;
  const PrefillMmaInstance& instance = find_instance(format.dtype, format.k_dim);
  PG_CHECK(instance.tile_rows == launch.tile.rows && instance.tile_keys == launch.tile.keys,
           "the plan's tile is not prefill_tile()");
  PG_CHECK(launch.shape.max_merges == 0, "a plan with spans");
  const int32_t bytes = shared_bytes(instance, format.dtype);
  CUDA_CHECK(
      cudaFuncSetAttribute(instance.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  int blocks = 0;
  CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
      &blocks, instance.kernel, instance.num_threads, bytes));
  PG_CHECK(blocks > 0, "a block of {} bytes does not fit", bytes);
  PrefillMmaParams mma = make_params(launch, params);
  launch_raw(instance.kernel,
             {launch.num_multiprocessors * blocks, instance.num_threads, bytes},
             options,
             &mma);
}

}  // namespace pagoda::cuda
