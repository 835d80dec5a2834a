#include "backend/cuda/append.h"

#include "backend/cuda/append_params.h"
#include "backend/cuda/format.h"
#include "base/error.h"

namespace pagoda::cuda {

void rope_store_kv(const AppendLaunch& launch, const LaunchOptions& options) {
  const RopeStoreKvArgs& args = launch.args;
  const KvFormat& format = args.kv.format;
  const int32_t dim = format.k_dim;
  PG_CHECK(dim == format.v_dim, "K {} V {}", dim, format.v_dim);
  if (!has_head_size(dim))
    throw Error("cuda.unsupported", "head size {}: {} are supported", dim, kHeadSizeNames);
  if (format.data_bytes(dim) / format.block_size % 16 != 0)
    throw Error("cuda.unsupported",
                "head size {} with {} KV: a row must be a multiple of 16 bytes",
                dim,
                name(format.dtype));
  PG_CHECK(args.q.dtype() == args.k.dtype() && args.k.dtype() == args.v.dtype() &&
               (args.q.dtype() == DType::bf16 || args.q.dtype() == DType::f16),
           "q, k, v: bf16 or f16, all alike");
  const auto aligned = [](const auto& rows) {
    return reinterpret_cast<uintptr_t>(rows.data()) % 16 == 0 && rows.row_bytes() % 16 == 0;
  };
  PG_CHECK(aligned(args.q) && aligned(args.k) && aligned(args.v), "rows at multiples of 16 bytes");
  AppendParams p = {};
  p.q = args.q.data();
  p.k = args.k.data();
  p.v = args.v.data();
  p.q_row_bytes = args.q.row_bytes();
  p.k_row_bytes = args.k.row_bytes();
  p.v_row_bytes = args.v.row_bytes();
  p.q_norm = args.q_norm.empty() ? nullptr : args.q_norm.as<float>();
  p.k_norm = args.k_norm.empty() ? nullptr : args.k_norm.as<float>();
  p.angles = args.angles.empty() ? nullptr : args.angles.as<float>();
  p.slots = args.slots.data();
  p.k_scales = launch.k_scales;
  p.v_scales = launch.v_scales;
  p.kv = reinterpret_cast<uint8_t*>(args.kv.base);
  p.block_bytes = args.kv.block_bytes();
  p.head_bytes = static_cast<int32_t>(format.head_bytes());
  p.v_offset = static_cast<int32_t>(format.v_offset());
  p.k_scales_offset = static_cast<int32_t>(format.k_scales_offset());
  p.v_scales_offset = static_cast<int32_t>(format.v_scales_offset());
  p.row_bytes = static_cast<int32_t>(format.row_bytes(dim));
  p.block_size = format.block_size;
  p.num_tokens = static_cast<int32_t>(args.q.rows());
  p.num_heads = args.num_heads;
  p.kv_heads = args.kv.kv_heads;
  p.head_dim = format.k_dim;
  p.num_pairs = args.angles.empty() ? 0 : static_cast<int32_t>(args.angles.dim(1));
  p.norm_epsilon = args.norm_epsilon;
  p.rotation = args.style == RopeStyle::half_split    ? Rotation::half_split
               : args.style == RopeStyle::interleaved ? Rotation::interleaved
                                                      : Rotation::none;
  p.format = cuda_format(format.dtype);
  p.is_bf16 = args.q.dtype() == DType::bf16;
  launch_append(p, options);
}

}  // namespace pagoda::cuda
