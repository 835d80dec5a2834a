#include "backend/cuda/naive.h"

#include "backend/cuda/format.h"
#include "backend/cuda/naive_params.h"
#include "backend/cuda/rows.h"
#include "base/error.h"

namespace pagoda::cuda {

void naive_attention(const AttentionArgs& args, const LaunchOptions& options) {
  const KvFormat& format = args.kv.format;
  PG_CHECK(args.num_heads % args.kv.kv_heads == 0, "{} of {}", args.num_heads, args.kv.kv_heads);
  PG_CHECK(format.k_dim == format.v_dim, "K {} V {}", format.k_dim, format.v_dim);
  if (format.data_bytes(format.k_dim) / format.block_size % 16 != 0)
    throw Error("cuda.unsupported",
                "head size {} with {} KV: a row must be a multiple of 16 bytes",
                format.k_dim,
                name(format.dtype));
  PG_CHECK(format.k_dim <= 256, "head size {}", format.k_dim);
  NaiveParams p = {};
  p.q = rows_of(args.q);
  p.out = rows_of(args.out);
  p.log_sum_exp = args.log_sum_exp.empty() ? nullptr : args.log_sum_exp.as<float>();
  p.sum_row_floats = args.log_sum_exp.empty() ? 0 : args.log_sum_exp.row_bytes() / 4;
  p.sinks = args.sinks.empty() ? nullptr : args.sinks.as<float>();
  p.cu_q_lens = args.batch.cu_q_lens.data();
  p.kv_lens = args.batch.kv_lens.data();
  p.block_table = args.batch.block_table.data();
  p.kv = reinterpret_cast<const uint8_t*>(args.kv.base);
  p.block_bytes = args.kv.block_bytes();
  p.head_bytes = static_cast<int32_t>(format.head_bytes());
  p.v_offset = static_cast<int32_t>(format.v_offset());
  p.k_scales_offset = static_cast<int32_t>(format.k_scales_offset());
  p.v_scales_offset = static_cast<int32_t>(format.v_scales_offset());
  p.num_seqs = static_cast<int32_t>(args.batch.kv_lens.size());
  p.num_rows = static_cast<int32_t>(args.q.rows());
  p.max_blocks = args.batch.max_blocks;
  p.block_size = format.block_size;
  p.num_heads = args.num_heads;
  p.group = args.num_heads / args.kv.kv_heads;
  p.head_dim = format.k_dim;
  p.window = args.window;
  p.scale = args.scale;
  p.softcap = args.softcap;
  p.format = cuda_format(format.dtype);
  launch_naive(p, options);
}

}  // namespace pagoda::cuda
