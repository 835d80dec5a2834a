#include "backend/cuda/prefill.h"

#include <cuda.h>

#include <cstring>
#include <numeric>

#include "backend/cuda/format.h"
#include "backend/cuda/prefill_convert.h"
#include "backend/cuda/prefill_instances.h"
#include "backend/cuda/prefill_merge.h"
#include "backend/cuda/prefill_mma.h"
#include "base/error.h"

namespace pagoda::cuda {
namespace {

constexpr float kLog2E = 1.4426950408889634f;
constexpr int64_t kMaxKeys = 1 << 25;  // block numbers by multiplication are exact up to here

// Not, say, by the driver from the PTX that serves older devices.
bool compiled_for_hopper(const void* kernel) {
  cudaFuncAttributes attributes = {};
  CUDA_CHECK(cudaFuncGetAttributes(&attributes, kernel));
  return attributes.ptxVersion >= 90;
}

bool is_hopper() {
  int device = 0, major = 0;
  CUDA_CHECK(cudaGetDevice(&device));
  CUDA_CHECK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  return major == 9;
}

// The wgmma kernel for this, or null: then it is done by mma.sync.
const PrefillInstance* find_instance(KvDType dtype, int32_t head_dim, PrefillPath path) {
  if (path == PrefillPath::mma || (dtype != KvDType::bf16 && dtype != KvDType::f16)) return nullptr;
  if (!is_hopper()) return nullptr;
  for (const auto& table :
       {prefill_hd64_instances(), prefill_hd128_instances(), prefill_hd256_instances()})
    for (const PrefillInstance& i : table)
      if (i.is_bf16 == (dtype == KvDType::bf16) && i.head_dim == head_dim)
        return compiled_for_hopper(i.kernel) ? &i : nullptr;
  return nullptr;
}

void check(const PrefillLaunch& launch) {
  const AttentionArgs& args = launch.args;
  const KvFormat& format = args.kv.format;
  PG_CHECK(args.num_heads % args.kv.kv_heads == 0, "{} of {}", args.num_heads, args.kv.kv_heads);
  PG_CHECK(format.k_dim == format.v_dim, "K {} V {}", format.k_dim, format.v_dim);
  PG_CHECK(args.q.dtype() == args.out.dtype(), "q and out");
  PG_CHECK(launch.ticket != nullptr && launch.plan != nullptr, "no ticket or no plan");
  PG_CHECK(launch.mask == PrefillMask::causal || args.window == 0, "a window, not causal");
  PG_CHECK(launch.workspace != nullptr || launch.shape.max_parts == 0, "no workspace");
  PG_CHECK(int64_t{launch.shape.max_parts} * args.num_heads < INT32_MAX,
           "{} parts of {} heads",
           launch.shape.max_parts,
           args.num_heads);
  PG_CHECK(args.q.row_bytes() % 16 == 0 && args.out.row_bytes() % 16 == 0, "rows of 16 bytes");
  PG_CHECK(int64_t{args.batch.max_blocks} * format.block_size < kMaxKeys,
           "{} blocks",
           args.batch.max_blocks);
  PG_CHECK(args.q.dtype() == DType::bf16 || args.q.dtype() == DType::f16, "q dtype");
  const DType kv_dtype = format.dtype == KvDType::bf16  ? DType::bf16
                         : format.dtype == KvDType::f16 ? DType::f16
                                                        : args.q.dtype();
  if (args.q.dtype() != kv_dtype)
    throw Error(
        "cuda.unsupported", "prefill over {} KV: q must be of that type", name(format.dtype));
  if (format.block_size % 8 != 0)
    throw Error("cuda.unsupported",
                "block size {}: a multiple of 8 is needed (default {})",
                format.block_size,
                default_block_size(format.dtype));
}

using EncodeTiled = decltype(&cuTensorMapEncodeTiled);

EncodeTiled encode_function() {
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult result = {};
  CUDA_CHECK(cudaGetDriverEntryPointByVersion(
      "cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault, &result));
  if (result != cudaDriverEntryPointSuccess || entry == nullptr)
    throw Error("cuda.failed", "the driver has no cuTensorMapEncodeTiled: CUDA 12 is needed");
  return reinterpret_cast<EncodeTiled>(entry);
}

// Boxes of one head's tile_rows x atom of Q [T, H, D], as they shall lie in shared memory.
TensorMap q_map(const AttentionArgs& args, const PrefillInstance& instance) {
  static const EncodeTiled encode = encode_function();
  const cuuint64_t sizes[] = {static_cast<cuuint64_t>(instance.head_dim),
                              static_cast<cuuint64_t>(args.q.rows()),
                              static_cast<cuuint64_t>(args.num_heads)};
  const cuuint64_t strides[] = {static_cast<cuuint64_t>(args.q.row_bytes()),
                                static_cast<cuuint64_t>(instance.head_dim) * 2};
  const cuuint32_t box[] = {static_cast<cuuint32_t>(instance.atom_bytes / 2),
                            static_cast<cuuint32_t>(instance.tile_rows),
                            1};
  const cuuint32_t steps[] = {1, 1, 1};
  const CUtensorMapSwizzle swizzle = instance.atom_bytes == 128  ? CU_TENSOR_MAP_SWIZZLE_128B
                                     : instance.atom_bytes == 64 ? CU_TENSOR_MAP_SWIZZLE_64B
                                                                 : CU_TENSOR_MAP_SWIZZLE_32B;
  CUtensorMap map;
  const CUresult status = encode(&map,
                                 args.q.dtype() == DType::bf16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                                                               : CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
                                 3,
                                 const_cast<std::byte*>(args.q.data()),
                                 sizes,
                                 strides,
                                 box,
                                 steps,
                                 CU_TENSOR_MAP_INTERLEAVE_NONE,
                                 swizzle,
                                 CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                                 CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS)
    throw Error("cuda.failed", "cuTensorMapEncodeTiled: {}", static_cast<int>(status));
  TensorMap result;
  static_assert(sizeof result == sizeof map);
  std::memcpy(&result, &map, sizeof result);
  return result;
}

// Of one copy: some keys of one block, up to 64, since large copies take fewer instructions of the
// warps that start them; half a key tile at most where two multiprocessors load it together.
int32_t copied_keys(int32_t block_size, int32_t tile_keys, int32_t ranks) {
  const int32_t keys = std::gcd(std::gcd(block_size, tile_keys), 64);
  return keys * ranks > tile_keys ? keys / 2 : keys;
}

// All but the tensor map.
PrefillParams make_params(const PrefillLaunch& launch) {
  const AttentionArgs& args = launch.args;
  const KvFormat& format = args.kv.format;
  PrefillParams p = {};
  p.header = reinterpret_cast<const PrefillPlanHeader*>(launch.plan);
  p.tiles = reinterpret_cast<const PrefillTile*>(launch.plan + PrefillPlanShape::tiles_offset());
  p.block_table = args.batch.block_table.data();
  p.kv = reinterpret_cast<const uint8_t*>(args.kv.base);
  p.out = reinterpret_cast<uint8_t*>(args.out.data());
  p.log_sum_exp = args.log_sum_exp.empty() ? nullptr : args.log_sum_exp.as<float>();
  p.sinks = args.sinks.empty() ? nullptr : args.sinks.as<float>();
  p.ticket = launch.ticket;
  p.part_out = reinterpret_cast<float*>(launch.workspace);
  p.part_sum = reinterpret_cast<PartSum*>(launch.workspace + int64_t{launch.shape.max_parts} *
                                                                 args.num_heads * format.k_dim * 4);
  p.block_bytes = args.kv.block_bytes();
  p.out_row_bytes = args.out.row_bytes();
  p.sum_row_floats = args.log_sum_exp.empty() ? 0 : args.log_sum_exp.row_bytes() / 4;
  p.head_bytes = static_cast<int32_t>(format.head_bytes());
  p.v_offset = static_cast<int32_t>(format.v_offset());
  p.max_blocks = args.batch.max_blocks;
  p.block_size = format.block_size;
  p.block_inverse = static_cast<uint32_t>(ceil_div(int64_t{1} << 32, format.block_size));
  p.heads = args.num_heads;
  p.group = args.num_heads / args.kv.kv_heads;
  p.ranks = p.group % 2 == 0 && launch.ranks != 1 ? 2 : 1;
  for (int32_t crowd = 0; crowd < kCrowds; crowd++)
    p.section_heads[crowd] =
        launch.section_heads > 0
            ? launch.section_heads
            : prefill_section_heads(args.num_heads, args.kv.kv_heads, format.k_dim, crowd);
  p.piece = copied_keys(format.block_size, launch.tile.keys, p.ranks);
  // A block draws ahead: where each has few pieces, the longest must be the first.
  constexpr int32_t kFewPieces = 6;
  p.few_tiles = kFewPieces * launch.num_multiprocessors / args.num_heads;
  p.window = args.window > 0 ? args.window : kEverything;
  p.score_scale = (args.softcap > 0.f ? args.softcap : args.scale) * kLog2E;
  p.cap_scale = args.softcap > 0.f ? 2.f * kLog2E * args.scale / args.softcap : 0.f;
  return p;
}

// Rows in spans: what each span gave becomes the answer.
void merge_spans(const PrefillLaunch& launch,
                 const PrefillParams& params,
                 const LaunchOptions& options) {
  const AttentionArgs& args = launch.args;
  PrefillMergeParams p = {};
  p.header = params.header;
  p.merges = reinterpret_cast<const PrefillMerge*>(launch.plan + launch.shape.merges_offset());
  p.part_out = params.part_out;
  p.part_sum = params.part_sum;
  p.sinks = params.sinks;
  p.out = params.out;
  p.log_sum_exp = params.log_sum_exp;
  p.out_row_bytes = params.out_row_bytes;
  p.sum_row_floats = params.sum_row_floats;
  p.heads = args.num_heads;
  p.head_dim = args.kv.format.k_dim;
  p.tile_rows = launch.tile.rows;
  p.out_is_bf16 = args.out.dtype() == DType::bf16;
  p.max_merges = launch.shape.max_merges;
  p.num_multiprocessors = launch.num_multiprocessors;
  launch_prefill_merge(p, options);
}

// The 16-bit copy of what the planned rows see.
PrefillConvertParams convert_params(const PrefillLaunch& launch) {
  const AttentionArgs& args = launch.args;
  const KvFormat& format = args.kv.format;
  const PrefillScratchShape& shape = launch.scratch.shape;
  const int64_t num_seqs = ceil_div(args.batch.block_table.size(), args.batch.max_blocks);
  PG_CHECK(shape.kv_heads == args.kv.kv_heads && shape.head_dim == format.k_dim, "other heads");
  PG_CHECK(num_seqs <= shape.max_seqs, "{} of {} sequences", num_seqs, shape.max_seqs);
  PG_CHECK(int64_t{args.batch.max_blocks} * format.block_size <= shape.max_keys_per_seq,
           "{} blocks of {} keys",
           args.batch.max_blocks,
           format.block_size);
  PrefillConvertParams p = {};
  p.blocks = reinterpret_cast<const ScratchBlock*>(launch.scratch.plan);
  p.block_table = args.batch.block_table.data();
  p.kv = reinterpret_cast<const uint8_t*>(args.kv.base);
  p.k_scales = format.dtype == KvDType::fp8 ? launch.k_scales : nullptr;
  p.v_scales = format.dtype == KvDType::fp8 ? launch.v_scales : nullptr;
  p.scratch = reinterpret_cast<uint8_t*>(launch.scratch.memory + shape.table_bytes());
  p.scratch_table = reinterpret_cast<int32_t*>(launch.scratch.memory);
  p.block_bytes = args.kv.block_bytes();
  p.head_bytes = static_cast<int32_t>(format.head_bytes());
  p.v_offset = static_cast<int32_t>(format.v_offset());
  p.k_scales_offset = static_cast<int32_t>(format.k_scales_offset());
  p.v_scales_offset = static_cast<int32_t>(format.v_scales_offset());
  p.max_blocks = args.batch.max_blocks;
  p.block_size = format.block_size;
  p.table_width = shape.table_width();
  p.num_blocks = shape.max_blocks;
  p.kv_heads = args.kv.kv_heads;
  p.head_dim = format.k_dim;
  p.format = cuda_format(format.dtype);
  p.is_bf16 = shape.dtype == KvDType::bf16;
  return p;
}

// Makes the copy, unless it is there, and attends it.
void attend_copy(const PrefillLaunch& launch, const LaunchOptions& options) {
  const AttentionArgs& args = launch.args;
  const PrefillScratchShape& shape = launch.scratch.shape;
  const PrefillConvertParams p = convert_params(launch);
  if (!launch.scratch.is_filled) launch_prefill_convert(p, options);
  AttentionBatch batch = args.batch;
  const int64_t num_seqs = ceil_div(args.batch.block_table.size(), args.batch.max_blocks);
  batch.block_table = {p.scratch_table, static_cast<size_t>(num_seqs * p.table_width)};
  batch.max_blocks = p.table_width;
  const AttentionArgs copy = {
      .q = args.q,
      .kv = {launch.scratch.memory + shape.table_bytes(), p.num_blocks, p.kv_heads, shape.format()},
      .batch = batch,
      .num_heads = args.num_heads,
      .scale = args.scale,
      .window = args.window,
      .softcap = args.softcap,
      .sinks = args.sinks,
      .algorithm = args.algorithm,
      .out = args.out,
      .log_sum_exp = args.log_sum_exp};
  PrefillLaunch attend{.args = copy};
  attend.plan = launch.plan;
  attend.shape = launch.shape;
  attend.workspace = launch.workspace;
  attend.tile = launch.tile;
  attend.mask = launch.mask;
  attend.ticket = launch.ticket;
  attend.num_multiprocessors = launch.num_multiprocessors;
  attend.path = launch.path;
  attend.section_heads = launch.section_heads;
  attend.ranks = launch.ranks;
  // Not before the copy is done: the block table too is read early.
  prefill_attention(attend, {.stream = options.stream, .overlap_previous = false});
}

}  // namespace

PrefillTileSize prefill_tile(KvDType dtype, int32_t head_dim, PrefillPath path) {
  const PrefillInstance* instance = find_instance(dtype, head_dim, path);
  if (instance == nullptr) return prefill_mma_tile(dtype, head_dim);
  return {instance->tile_rows, instance->tile_keys, kSpanKeys / instance->tile_keys};
}

bool prefill_knows_spans() {
  return is_hopper();
}

void prefill_attention(const PrefillLaunch& launch, const LaunchOptions& options) {
  check(launch);
  const KvFormat& format = launch.args.kv.format;
  if (kv_bits(format.dtype) < 16 && launch.scratch.memory != nullptr)
    return attend_copy(launch, options);
  PrefillParams params = make_params(launch);
  const PrefillInstance* instance = find_instance(format.dtype, format.k_dim, launch.path);
  if (instance == nullptr) return prefill_mma_attention(launch, params, options);
  PG_CHECK(instance->tile_rows == launch.tile.rows && instance->tile_keys == launch.tile.keys,
           "the plan's tile is not prefill_tile()");
  params.q = q_map(launch.args, *instance);
  CUDA_CHECK(cudaFuncSetAttribute(
      instance->kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, instance->shared_bytes));
  launch_raw(instance->kernel,
             {launch.num_multiprocessors / params.ranks * params.ranks,
              instance->num_threads,
              instance->shared_bytes,
              params.ranks},
             options,
             &params);
  if (launch.shape.max_merges > 0) merge_spans(launch, params, options);
}

}  // namespace pagoda::cuda
