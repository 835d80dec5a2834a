#include "backend/cuda/attention.h"

#include <algorithm>

#include "backend/cuda/naive.h"
#include "base/checked.h"
#include "base/error.h"

namespace pagoda::cuda {
namespace {

constexpr int64_t kAlignment = 256;

AttentionLimits limits_of(const WorkspaceShape& shape, int32_t num_multiprocessors) {
  return {.max_tokens = shape.max_tokens,
          .max_seqs = shape.max_seqs,
          .max_context = shape.max_context,
          .num_heads = shape.num_heads,
          .kv_heads = shape.kv_heads,
          .num_multiprocessors = num_multiprocessors,
          .head_dim = shape.head_dim,
          .prefill_knows_spans = prefill_knows_spans()};
}

// Of the decode kernel for these pieces. More teams of a kernel that then has fewer blocks are not
// worth it.
int32_t choose_columns(const AttentionArgs& args,
                       const AttentionPieces& pieces,
                       int32_t num_multiprocessors) {
  const KvFormat& format = args.kv.format;
  const int32_t group = args.num_heads / args.kv.kv_heads;
  const auto columns_for = [&](int32_t rows) {
    return decode_columns(format.dtype, format.k_dim, group, rows);
  };
  const auto full_grid = [&](int32_t columns) {
    return decode_full_grid(format.dtype, format.k_dim, columns, num_multiprocessors);
  };
  const int32_t least = columns_for(longest_sampling_piece(pieces));
  if (args.window > 0) return least;
  const int32_t most = columns_for(most_rows_that_share(pieces));
  if (most <= least || full_grid(most) < full_grid(least)) return least;
  return sharing_pays(pieces, least / group, most / group) ? most : least;
}

// All that a plan is made from.
std::vector<int32_t> key_of(const AttentionArgs& args) {
  const KvFormat& format = args.kv.format;
  std::vector<int32_t> key = {static_cast<int32_t>(format.dtype),
                              format.k_dim,
                              args.num_heads,
                              args.kv.kv_heads,
                              args.window};
  const AttentionBatch& batch = args.batch;
  for (const auto& part : {batch.host_cu_q_lens, batch.host_kv_lens, batch.host_sampling_rows}) {
    key.push_back(static_cast<int32_t>(part.size()));
    key.insert(key.end(), part.begin(), part.end());
  }
  for (const SharedKeys& keys : batch.host_shared)
    key.insert(key.end(), {keys.first_seq, keys.num_seqs, keys.num_keys});
  return key;
}

}  // namespace

Attention::~Attention() {
  for (Slot& slot : slots_)
    if (slot.uploaded) cudaEventDestroy(slot.uploaded);
}

Attention::Layout Attention::layout(const WorkspaceShape& shape) const {
  const AttentionLimits limits = limits_of(shape, num_multiprocessors_);
  Layout layout = {};
  layout.decode = decode_capacity(limits);
  layout.scratch = {.max_seqs = shape.max_seqs,
                    // A block table's last block may end behind the last key.
                    .max_keys_per_seq = shape.max_context + kScratchBlockKeys,
                    .kv_heads = shape.kv_heads,
                    .head_dim = shape.head_dim};
  if (kv_bits(shape.kv_dtype) < 16)  // of one sequence: others take their turn
    layout.scratch.max_blocks = layout.scratch.table_width();
  const PrefillPlanShape prefill = prefill_capacity(limits);
  layout.prefill_parts_bytes = prefill.workspace_bytes(shape.num_heads, shape.head_dim);
  layout.slot_bytes = round_up(
      std::max(layout.decode.num_bytes(), prefill.num_bytes() + layout.scratch.plan_bytes()),
      kAlignment);
  layout.ticket = kSlots * layout.slot_bytes;
  layout.partials = layout.ticket + kAlignment;
  const int64_t partials = std::max(layout.decode.workspace_bytes(shape.num_heads, shape.head_dim),
                                    layout.prefill_parts_bytes);
  layout.copied = round_up(layout.partials + partials, 1024);
  layout.total = layout.copied + (layout.scratch.max_blocks > 0 ? layout.scratch.num_bytes() : 0);
  return layout;
}

int64_t Attention::workspace_bytes(const WorkspaceShape& shape) const {
  return layout(shape).total;
}

void Attention::reserve(const WorkspaceShape& shape, std::byte* workspace) {
  layout_ = layout(shape);
  workspace_ = workspace;
  reserved_width_ = int64_t{shape.num_heads} * shape.head_dim;
  recent_.clear();
  for (Slot& slot : slots_) {
    slot.host = PinnedBytes(layout_.slot_bytes);
    if (!slot.uploaded)
      CUDA_CHECK(cudaEventCreateWithFlags(&slot.uploaded, cudaEventDisableTiming));
  }
}

// The room for copies as this operation uses it; without blocks where none are made.
PrefillScratchShape Attention::scratch_for(const AttentionArgs& args) const {
  PrefillScratchShape shape = layout_.scratch;
  if (kv_bits(args.kv.format.dtype) >= 16) shape.max_blocks = 0;
  const AttentionBatch& batch = args.batch;
  shape.max_seqs = static_cast<int32_t>(ceil_div(batch.block_table.size(), batch.max_blocks));
  shape.max_keys_per_seq = batch.max_blocks * args.kv.format.block_size;
  shape.dtype = args.q.dtype() == DType::bf16 ? KvDType::bf16 : KvDType::f16;
  shape.kv_heads = args.kv.kv_heads;
  shape.head_dim = args.kv.format.k_dim;
  PG_CHECK(shape.num_bytes() <= layout_.scratch.num_bytes(), "{} bytes", shape.num_bytes());
  return shape;
}

AttentionPlan Attention::plan(const AttentionArgs& args, Planned& planned) const {
  const AttentionBatch& batch = args.batch;
  const KvFormat& format = args.kv.format;
  std::vector<SharedPrefix> shared;
  for (const SharedKeys& keys : batch.host_shared)
    shared.push_back({keys.first_seq, keys.num_seqs, keys.num_keys});
  const AttentionPieces pieces =
      split_rows({batch.host_cu_q_lens, batch.host_kv_lens, batch.host_sampling_rows, shared});
  AttentionPlanInput input;
  input.capacity = layout_.decode;
  const int32_t group = args.num_heads / args.kv.kv_heads;
  if (!pieces.sampling.empty()) {
    planned.columns = choose_columns(args, pieces, num_multiprocessors_);
    input.decode = {.cu_q_lens = {},
                    .kv_lens = {},
                    .kv_heads = args.kv.kv_heads,
                    .group = group,
                    .window = args.window,
                    .columns = planned.columns,
                    .num_multiprocessors = num_multiprocessors_,
                    .full_grid = decode_full_grid(
                        format.dtype, format.k_dim, planned.columns, num_multiprocessors_)};
  }
  if (!pieces.prompt.empty()) {
    const PrefillScratchShape scratch = scratch_for(args);
    input.scratch_blocks = scratch.max_blocks;
    planned.tile =
        prefill_tile(scratch.max_blocks > 0 ? scratch.dtype : format.dtype, format.k_dim);
    input.prefill = {.cu_q_lens = {},
                     .kv_lens = {},
                     .tile_rows = planned.tile.rows,
                     .tile_keys = planned.tile.keys,
                     .span_tiles = planned.tile.span_tiles,
                     .max_parts = static_cast<int32_t>(
                         layout_.prefill_parts_bytes /
                         PrefillPlanShape::part_bytes(args.num_heads, format.k_dim)),
                     .window = args.window};
  }
  AttentionPlan plan = plan_attention(pieces, input);
  for (const DecodePlan& d : plan.decode)
    planned.decode.push_back(
        {shape_of(d), d.max_parts_per_row, d.max_sections_per_row, d.header.chunks_per_part});
  for (const PrefillPart& p : plan.prefill) {
    const int32_t num_copied = p.reads_last_copy ? planned.prefill.back().num_copied
                                                 : static_cast<int32_t>(p.copied.size());
    planned.prefill.push_back({shape_of(p.plan), num_copied, p.reads_last_copy});
  }
  return plan;
}

// The host side of the next slot, once the copy that was last made from it is done.
std::span<std::byte> Attention::next_slot(int64_t bytes) {
  PG_CHECK(
      bytes <= layout_.slot_bytes, "a plan of {} bytes, reserved {}", bytes, layout_.slot_bytes);
  Slot& slot = slots_[uses_ % kSlots];
  CUDA_CHECK(cudaEventSynchronize(slot.uploaded));
  return {slot.host.data(), static_cast<size_t>(bytes)};
}

const std::byte* Attention::send(std::span<const std::byte> bytes) {
  std::byte* device = slot_on_device(uses_);
  CUDA_CHECK(cudaMemcpyAsync(device, bytes.data(), bytes.size(), cudaMemcpyHostToDevice, stream_));
  CUDA_CHECK(cudaEventRecord(slots_[uses_ % kSlots].uploaded, stream_));
  uses_++;
  return device;
}

const std::byte* Attention::upload_next(const DecodePlan& plan) {
  const DecodePlanShape shape = shape_of(plan);
  const std::span<std::byte> bytes = next_slot(shape.num_bytes());
  write_plan(plan, shape, bytes);
  return send(bytes);
}

// The plan, and behind it that of the copy.
const std::byte* Attention::upload_next(const PrefillPart& part) {
  const PrefillPlanShape shape = shape_of(part.plan);
  const PrefillScratchShape copied = {.max_blocks = static_cast<int32_t>(part.copied.size())};
  const std::span<std::byte> bytes = next_slot(shape.num_bytes() + copied.plan_bytes());
  write_plan(part.plan, shape, bytes.first(shape.num_bytes()));
  write_plan(part.copied, copied, bytes.subspan(shape.num_bytes()));
  return send(bytes);
}

void Attention::launch_decode(const AttentionArgs& args,
                              const Planned& planned,
                              const DecodePart& part,
                              const std::byte* plan,
                              EarlyLoads early) const {
  decode_attention({.args = args,
                    .plan = plan,
                    .shape = part.shape,
                    .workspace = workspace_ + layout_.partials,
                    .num_work = part.shape.max_items * args.kv.kv_heads,
                    .max_parts_per_row = part.max_parts_per_row,
                    .max_sections_per_row = part.max_sections_per_row,
                    .chunks_per_part = part.chunks_per_part,
                    .columns = planned.columns,
                    .num_multiprocessors = num_multiprocessors_,
                    .early_loads = early},
                   {.stream = stream_});
}

void Attention::launch_prefill(const AttentionArgs& args,
                               const Planned& planned,
                               const PrefillSize& size,
                               const std::byte* plan) const {
  PrefillScratch scratch;
  if (size.num_copied > 0) {
    scratch = {.memory = workspace_ + layout_.copied,
               .plan = plan + size.shape.num_bytes(),
               .shape = scratch_for(args),
               .is_filled = size.is_copied};
    scratch.shape.max_blocks = size.num_copied;
  }
  prefill_attention({.args = args,
                     .plan = plan,
                     .shape = size.shape,
                     .workspace = workspace_ + layout_.partials,
                     .tile = planned.tile,
                     .ticket = reinterpret_cast<int32_t*>(workspace_ + layout_.ticket),
                     .num_multiprocessors = num_multiprocessors_,
                     .scratch = scratch},
                    {.stream = stream_});
}

void Attention::run(const AttentionArgs& args, EarlyLoads early) {
  if (args.algorithm == AttentionAlgorithm::naive)
    return naive_attention(args, {.stream = stream_});
  PG_CHECK(workspace_ != nullptr, "no workspace");
  PG_CHECK(int64_t{args.num_heads} * args.kv.format.k_dim <= reserved_width_,
           "{} heads of {}, reserved {} columns",
           args.num_heads,
           args.kv.format.k_dim,
           reserved_width_);
  std::vector<int32_t> key = key_of(args);
  const auto found = std::find_if(recent_.begin(), recent_.end(), [&](const Planned& p) {
    return uses_ - p.first_use <= kSlots && p.key == key;
  });
  if (found != recent_.end()) {
    uint64_t use = found->first_use;
    for (const PrefillSize& size : found->prefill)
      launch_prefill(args, *found, size, slot_on_device(use++));
    for (const DecodePart& part : found->decode)
      launch_decode(args, *found, part, slot_on_device(use++), early);
    return;
  }
  Planned planned = {
      .key = std::move(key), .first_use = uses_, .tile = {}, .decode = {}, .prefill = {}};
  const AttentionPlan fresh = plan(args, planned);
  for (size_t i = 0; i < planned.prefill.size(); i++)
    launch_prefill(args, planned, planned.prefill[i], upload_next(fresh.prefill[i]));
  for (size_t i = 0; i < planned.decode.size(); i++)
    launch_decode(args, planned, planned.decode[i], upload_next(fresh.decode[i]), early);
  // Only what went through is worth finding again.
  if (recent_.size() >= kSlots) recent_.pop_back();
  recent_.push_front(std::move(planned));
}

}  // namespace pagoda::cuda
