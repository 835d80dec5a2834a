#include "backend/cuda/decode.h"

#include <algorithm>
#include <numeric>

#include "backend/cuda/decode_instances.h"
#include "backend/cuda/format.h"
#include "backend/cuda/merge.h"
#include "base/error.h"

namespace pagoda::cuda {
namespace {

constexpr float kLog2E = 1.4426950408889634f;

std::span<const DecodeInstance> instances(KvDType dtype) {
  switch (cuda_format(dtype)) {
    case Format::bf16:
      return decode_bf16_instances();
    case Format::f16:
      return decode_f16_instances();
    case Format::fp8:
      return decode_fp8_instances();
    case Format::int8:
      return decode_int8_instances();
    case Format::int4:
      return decode_int4_instances();
  }
  return {};
}

// The wide kernel if columns are many, else the smallest instance that holds the head.
const DecodeInstance& find_decode_instance(KvDType dtype, int32_t head_dim, int64_t columns) {
  constexpr int32_t kHeadSizes[] = {64, 80, 96, 128, 192, 256};
  if (std::find(std::begin(kHeadSizes), std::end(kHeadSizes), head_dim) == std::end(kHeadSizes))
    throw Error("cuda.unsupported", "head size {}: 64, 80, 96, 128, 192 and 256 are", head_dim);
  const std::span<const DecodeInstance> all = instances(dtype);
  const DecodeInstance& narrow = *std::find_if(
      all.begin(), all.end(), [&](const DecodeInstance& i) { return i.head_dim >= head_dim; });
  if (kv_bits(dtype) == 16 && columns > narrow.team_columns)
    for (const DecodeInstance& wide : decode_wide_instances())
      if (wide.head_dim == head_dim) return wide;
  return narrow;
}
int32_t num_teams(const DecodeInstance& instance, int64_t columns) {
  return static_cast<int32_t>(
      std::clamp<int64_t>(ceil_div(columns, instance.team_columns), 1, instance.max_teams));
}

DecodeParams make_params(const DecodeLaunch& launch, const DecodeInstance& instance) {
  const AttentionArgs& args = launch.args;
  const KvFormat& format = args.kv.format;
  const int32_t dim = format.k_dim;
  DecodeParams p = {};
  p.header = reinterpret_cast<const DecodePlanHeader*>(launch.plan);
  p.rows = reinterpret_cast<const DecodeRow*>(launch.plan + launch.shape.rows_offset());
  p.items = reinterpret_cast<const DecodeItem*>(launch.plan + launch.shape.items_offset());
  p.block_table = args.batch.block_table.data();
  p.kv = reinterpret_cast<const uint8_t*>(args.kv.base);
  p.q = args.q.data();
  p.out = args.out.data();
  p.log_sum_exp = args.log_sum_exp.empty() ? nullptr : args.log_sum_exp.as<float>();
  p.sinks = args.sinks.empty() ? nullptr : args.sinks.as<float>();
  p.k_scales = launch.k_scales;
  p.v_scales = launch.v_scales;
  p.part_out = reinterpret_cast<float*>(launch.workspace);
  p.part_sum = reinterpret_cast<PartSum*>(launch.workspace + int64_t{launch.shape.max_parts} *
                                                                 args.num_heads * dim * 4);
  p.block_bytes = args.kv.block_bytes();
  p.q_row_bytes = args.q.row_bytes();
  p.out_row_bytes = args.out.row_bytes();
  p.sum_row_floats = args.log_sum_exp.empty() ? 0 : args.log_sum_exp.row_bytes() / 4;
  p.head_bytes = static_cast<int32_t>(format.head_bytes());
  p.v_offset = static_cast<int32_t>(format.v_offset());
  p.k_scales_offset = static_cast<int32_t>(format.k_scales_offset());
  p.v_scales_offset = static_cast<int32_t>(format.v_scales_offset());
  p.max_blocks = args.batch.max_blocks;
  p.block_size = format.block_size;
  p.piece = std::gcd(format.block_size, instance.slot_keys);
  p.kv_heads = args.kv.kv_heads;
  p.group = args.num_heads / args.kv.kv_heads;
  p.head_dim = dim;
  p.row_bytes = static_cast<int32_t>(format.row_bytes(dim));
  p.atom_shift = atom_shift(p.row_bytes);
  p.scale_bytes = static_cast<int32_t>(format.scale_bytes(dim) / format.block_size);
  p.num_teams = num_teams(instance, launch.columns);
  p.kv_is_bf16 = format.dtype == KvDType::bf16;
  // Items of several sections are whole rows: no row then has several parts.
  const bool whole_rows = launch.chunks_per_part > 1 && launch.max_parts_per_row <= 1;
  p.team_bytes = instance.team_bytes + (whole_rows ? instance.row_state_bytes : 0);
  p.ring_at = kDecodeTeamsAt + p.num_teams * p.team_bytes;
  p.slot_bytes = instance.slot_keys * (p.row_bytes + p.scale_bytes);
  p.softcap = args.softcap * kLog2E;
  p.score_scale = args.softcap > 0.f ? args.scale / args.softcap : args.scale * kLog2E;
  p.q_is_bf16 = args.q.dtype() == DType::bf16;
  p.early = launch.early_loads == EarlyLoads::older_keys;
  return p;
}

void check(const DecodeLaunch& launch) {
  const AttentionArgs& args = launch.args;
  const KvFormat& format = args.kv.format;
  PG_CHECK(args.num_heads % args.kv.kv_heads == 0, "{} of {}", args.num_heads, args.kv.kv_heads);
  PG_CHECK(format.k_dim == format.v_dim, "K {} V {}", format.k_dim, format.v_dim);
  PG_CHECK(args.q.dtype() == DType::bf16 || args.q.dtype() == DType::f16, "q dtype");
  PG_CHECK(args.q.dtype() == args.out.dtype(), "q and out");
  if (format.block_size % 16 != 0)
    throw Error("cuda.unsupported",
                "block size {}: a multiple of 16 is needed (default {})",
                format.block_size,
                default_block_size(format.dtype));
}

DecodeConfig make_config(const DecodeLaunch& launch,
                         const DecodeInstance& instance,
                         const DecodeParams& p,
                         int32_t beside_bytes) {
  DecodeConfigInput in;
  int device = 0;
  CUDA_CHECK(cudaGetDevice(&device));
  CUDA_CHECK(cudaDeviceGetAttribute(
      &in.shared_bytes_per_multiprocessor, cudaDevAttrMaxSharedMemoryPerMultiprocessor, device));
  in.beside_bytes = beside_bytes;
  in.fixed_bytes = p.ring_at;
  in.slot_bytes = p.slot_bytes;
  // V's scales lie behind its rows: all of a chunk's V is waited for before any of it is let go.
  if (p.scale_bytes > 0) in.min_slots = std::max(2, kChunk / instance.slot_keys);
  in.max_blocks_per_multiprocessor = launch.tuning.blocks_per_multiprocessor > 0
                                         ? launch.tuning.blocks_per_multiprocessor
                                     : p.num_teams == 1 ? instance.blocks
                                                        : instance.blocks_of_teams;
  in.num_multiprocessors = launch.num_multiprocessors;
  in.short_items = launch.chunks_per_part == 1;
  in.max_work =
      launch.num_work > 0 ? launch.num_work : launch.shape.max_items * launch.args.kv.kv_heads;
  if (launch.tuning.flying_bytes > 0) in.flying_bytes = launch.tuning.flying_bytes;
  DecodeConfig config = decode_config(in);
  if (launch.tuning.num_slots > 0 && launch.tuning.num_slots < config.num_slots)
    config.num_slots = std::max(launch.tuning.num_slots, in.min_slots);
  if (launch.tuning.num_flying > 0) config.num_flying = launch.tuning.num_flying;
  if (config.num_flying > config.num_slots) config.num_flying = config.num_slots;
  return config;
}

MergeParams make_merge(const DecodeLaunch& launch, const DecodeParams& p) {
  const int64_t max_keys = int64_t{p.max_blocks} * p.block_size;
  MergeParams m = {};
  m.header = p.header;
  m.rows = p.rows;
  m.part_out = p.part_out;
  m.part_sum = p.part_sum;
  m.sinks = p.sinks;
  m.v_scales = p.v_scales;
  m.out = p.out;
  m.log_sum_exp = p.log_sum_exp;
  m.out_row_bytes = p.out_row_bytes;
  m.sum_row_floats = p.sum_row_floats;
  m.num_heads = launch.args.num_heads;
  m.group = p.group;
  m.head_dim = p.head_dim;
  m.out_is_bf16 = p.q_is_bf16;
  m.max_rows = launch.shape.max_rows;
  m.max_sections = launch.max_sections_per_row > 0
                       ? launch.max_sections_per_row
                       : static_cast<int32_t>(ceil_div(max_keys, kSection) + 1);
  m.max_parts =
      launch.max_parts_per_row > 0 ? launch.max_parts_per_row : kChunksPerSection * m.max_sections;
  m.parts_are_chunks = launch.chunks_per_part == 1;
  return m;
}

}  // namespace

int32_t decode_columns(KvDType dtype, int32_t head_dim, int32_t group, int32_t max_q_len) {
  const int64_t columns = int64_t{group} * max_q_len;
  const DecodeInstance& instance = find_decode_instance(dtype, head_dim, columns);
  return num_teams(instance, columns) * instance.team_columns;
}

int32_t decode_full_grid(KvDType dtype,
                         int32_t head_dim,
                         int32_t columns,
                         int32_t num_multiprocessors) {
  const DecodeInstance& instance = find_decode_instance(dtype, head_dim, columns);
  const bool one = num_teams(instance, columns) == 1;
  return num_multiprocessors * (one ? instance.blocks : instance.blocks_of_teams);
}

void decode_attention(const DecodeLaunch& launch, const LaunchOptions& options) {
  check(launch);
  const KvFormat& format = launch.args.kv.format;
  const DecodeInstance& instance = find_decode_instance(format.dtype, format.k_dim, launch.columns);
  DecodeParams params = make_params(launch, instance);
  PG_CHECK(
      params.num_teams * instance.team_columns == launch.columns, "{} columns", launch.columns);
  const bool merges =
      launch.max_parts_per_row != 1 && int64_t{params.max_blocks} * params.block_size > kChunk;
  const MergeParams merge = make_merge(launch, params);
  constexpr int32_t kMostBeside = 6 << 10;  // a larger merge would cost the ring more than it gains
  const int32_t beside = merges && merge_room(merge) <= kMostBeside ? merge_room(merge) : 0;
  const DecodeConfig config = make_config(launch, instance, params, beside);
  params.num_slots = config.num_slots;
  params.num_flying = config.num_flying;
  CUDA_CHECK(cudaFuncSetAttribute(
      instance.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, config.shared_bytes));
  prefer_shared_memory(instance.kernel);
  const int32_t threads = 128 * params.num_teams + 32;
  launch_raw(instance.kernel, {config.grid, threads, config.shared_bytes}, options, &params);
  if (merges) launch_merge(merge, options);
}

}  // namespace pagoda::cuda
