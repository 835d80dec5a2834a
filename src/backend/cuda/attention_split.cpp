#include "backend/cuda/attention_split.h"

#include <algorithm>
#include <utility>

#include "base/checked.h"
#include "base/error.h"

namespace pagoda::cuda {
namespace {

constexpr int32_t kLeastColumns = 8;    // of a decode kernel
constexpr int32_t kLeastTileRows = 16;  // of a prefill kernel
// Keys of a step that one launch has partials for; more are attended in several launches.
constexpr int64_t kMostKeys = int64_t{4} << 20;
// Of what the spans of prefill's rows give: more are attended in several launches.
constexpr int64_t kMostPartBytes = int64_t{130} << 20;  // 4 tiles of 128 rows over 131k, 32 heads
constexpr int32_t kMostTileRows = 192;                  // of a prefill kernel
constexpr int32_t kMostTileKeys = 256;

bool fits(const DecodePlan& plan, const DecodePlanShape& capacity) {
  return static_cast<int64_t>(plan.rows.size()) <= capacity.max_rows &&
         static_cast<int64_t>(plan.items.size()) <= capacity.max_items &&
         plan.header.num_parts <= capacity.max_parts;
}

int32_t rows_of(const AttentionPieces& pieces, const SharedPrefix& prefix) {
  int32_t rows = 0;
  for (int32_t i = prefix.first_seq; i < prefix.first_seq + prefix.num_seqs; i++) {
    const int32_t p = pieces.sampling[i];
    rows += pieces.cu_q_lens[p + 1] - pieces.cu_q_lens[p];
  }
  return rows;
}

// Keys that decode reads with up to `rows` rows side by side. Where sequences are so many that
// sharing matters, whole sections are shared.
int64_t keys_read(const AttentionPieces& pieces, int32_t rows) {
  int64_t keys = 0;
  for (const int32_t p : pieces.sampling) keys += pieces.kv_lens[p];
  for (const SharedPrefix& prefix : pieces.shared) {
    const int64_t times = ceil_div(rows_of(pieces, prefix), std::max(1, rows)) - prefix.num_seqs;
    keys += prefix.num_keys / kSection * kSection * times;
  }
  return keys;
}

// What of the groups lies in [begin, end) of the pieces, counted from there.
std::vector<SharedPrefix> within(std::span<const SharedPrefix> all, int32_t begin, int32_t end) {
  std::vector<SharedPrefix> some;
  for (const SharedPrefix& group : all) {
    const int32_t from = std::max(begin, group.first_seq);
    const int32_t to = std::min(end, group.first_seq + group.num_seqs);
    if (to - from > 1) some.push_back({from - begin, to - from, group.num_keys});
  }
  return some;
}

// Halves the pieces until each launch fits. A piece that fits nowhere in chunks does in sections.
void plan_decodes(const AttentionPieces& pieces,
                  int32_t begin,  // of pieces.sampling
                  int32_t end,
                  const AttentionPlanInput& input,
                  std::vector<DecodePlan>& plans) {
  DecodePlanInput in = input.decode;
  in.cu_q_lens = pieces.cu_q_lens;
  in.kv_lens = pieces.kv_lens;
  in.seqs = std::span(pieces.sampling).subspan(begin, end - begin);
  std::vector<SharedPrefix> shared;
  if (in.window == 0) shared = within(pieces.shared, begin, end);
  in.shared = shared;
  DecodePlan plan = plan_decode(in);
  if (!fits(plan, input.capacity) && end - begin > 1) {
    const int32_t middle = begin + (end - begin) / 2;
    plan_decodes(pieces, begin, middle, input, plans);
    plan_decodes(pieces, middle, end, input, plans);
    return;
  }
  if (!fits(plan, input.capacity)) {
    in.parts = DecodeParts::sections;
    plan = plan_decode(in);
    PG_CHECK(fits(plan, input.capacity),
             "{} rows, {} items, {} parts",
             plan.rows.size(),
             plan.items.size(),
             plan.header.num_parts);
  }
  for (DecodeItem& item : plan.items) {
    item.fresh = pieces.fresh[item.table_row];
    item.table_row = pieces.seqs[item.table_row];
  }
  plans.push_back(std::move(plan));
}

// pieces.prompt [begin, end), whose keys are copied together: one launch, but where many rows see
// many keys.
void plan_prefill_part(const AttentionPieces& pieces,
                       size_t begin,
                       size_t end,
                       const AttentionPlanInput& input,
                       std::vector<PrefillPart>& parts) {
  PrefillPlanInput in = input.prefill;
  in.cu_q_lens = pieces.cu_q_lens;
  in.kv_lens = pieces.kv_lens;
  in.seqs = std::span(pieces.prompt).subspan(begin, end - begin);
  std::vector<ScratchBlock> copied;
  if (input.scratch_blocks > 0) copied = plan_prefill_scratch(in);
  for (ScratchBlock& block : copied) block.seq = pieces.seqs[block.seq];
  bool is_first = true;
  for (PrefillPlan& plan : plan_prefill(in)) {
    for (PrefillTile& tile : plan.tiles) tile.seq = pieces.seqs[tile.seq];
    parts.push_back({.plan = std::move(plan),
                     .copied = std::exchange(copied, {}),
                     .reads_last_copy = !is_first && input.scratch_blocks > 0});
    is_first = false;
  }
}

// As many sequences a launch as their keys' copy has room for; all where nothing is copied.
void plan_prefills(const AttentionPieces& pieces,
                   const AttentionPlanInput& input,
                   std::vector<PrefillPart>& parts) {
  size_t begin = 0;
  int64_t blocks = 0;
  for (size_t i = 0; i < pieces.prompt.size(); i++) {
    const int64_t more = ceil_div(int64_t{pieces.kv_lens[pieces.prompt[i]]}, kScratchBlockKeys);
    if (input.scratch_blocks > 0 && i > begin && blocks + more > input.scratch_blocks) {
      plan_prefill_part(pieces, begin, i, input, parts);
      begin = i;
      blocks = 0;
    }
    blocks += more;
  }
  if (!pieces.prompt.empty()) plan_prefill_part(pieces, begin, pieces.prompt.size(), input, parts);
}

// The sampling pieces of the group's sequences, and the keys that were there before this step.
void share(const SharedPrefix& group, AttentionPieces& pieces) {
  SharedPrefix of_pieces = {0, 0, group.num_keys};
  for (size_t i = 0; i < pieces.sampling.size(); i++) {
    const int32_t piece = pieces.sampling[i], seq = pieces.seqs[piece];
    if (seq < group.first_seq || seq >= group.first_seq + group.num_seqs) continue;
    if (of_pieces.num_seqs++ == 0) of_pieces.first_seq = static_cast<int32_t>(i);
    of_pieces.num_keys = std::min(of_pieces.num_keys, pieces.fresh[piece]);
  }
  if (of_pieces.num_seqs > 1) pieces.shared.push_back(of_pieces);
}

}  // namespace

AttentionPieces split_rows(const RowLengths& batch) {
  AttentionPieces pieces;
  const auto B = static_cast<int32_t>(batch.kv_lens.size());
  for (int32_t b = 0; b < B; b++) {
    const int32_t rows = batch.cu_q_lens[b + 1] - batch.cu_q_lens[b];
    const int32_t sampling = batch.sampling_rows.empty() ? 0 : batch.sampling_rows[b];
    PG_CHECK(sampling >= 0 && sampling <= rows, "sequence {}: {} of {}", b, sampling, rows);
    const auto add = [&](int32_t count, int32_t behind, std::vector<int32_t>& kind) {
      kind.push_back(static_cast<int32_t>(pieces.seqs.size()));
      pieces.cu_q_lens.push_back(pieces.cu_q_lens.back() + count);
      pieces.kv_lens.push_back(std::max(0, batch.kv_lens[b] - behind));
      pieces.seqs.push_back(b);
      pieces.fresh.push_back(std::max(0, batch.kv_lens[b] - rows));
    };
    if (rows > sampling) add(rows - sampling, sampling, pieces.prompt);
    for (int32_t left = sampling; left > 0; left -= std::min(left, kPieceRows))
      add(std::min(left, kPieceRows), left - std::min(left, kPieceRows), pieces.sampling);
  }
  for (const SharedPrefix& group : batch.shared) share(group, pieces);
  return pieces;
}

int32_t longest_sampling_piece(const AttentionPieces& pieces) {
  int32_t longest = 0;
  for (const int32_t p : pieces.sampling)
    longest = std::max(longest, pieces.cu_q_lens[p + 1] - pieces.cu_q_lens[p]);
  return longest;
}

int32_t most_rows_that_share(const AttentionPieces& pieces) {
  int32_t most = 0;
  for (const SharedPrefix& prefix : pieces.shared) most = std::max(most, rows_of(pieces, prefix));
  return most;
}

bool sharing_pays(const AttentionPieces& pieces, int32_t least, int32_t most) {
  return keys_read(pieces, most) * 20 < keys_read(pieces, least) * 19;
}

AttentionPlan plan_attention(const AttentionPieces& pieces, const AttentionPlanInput& input) {
  AttentionPlan plan;
  const auto num_sampling = static_cast<int32_t>(pieces.sampling.size());
  if (num_sampling > 0) plan_decodes(pieces, 0, num_sampling, input, plan.decode);
  plan_prefills(pieces, input, plan.prefill);
  return plan;
}

DecodePlanShape shape_of(const DecodePlan& plan) {
  return {.max_rows = static_cast<int32_t>(plan.rows.size()),
          .max_items = static_cast<int32_t>(plan.items.size()),
          .max_parts = plan.header.num_parts};
}

DecodePlanShape decode_capacity(const AttentionLimits& limits) {
  if (limits.num_heads == 0 || limits.kv_heads == 0) return {};
  DecodePlanInput in;
  in.kv_heads = limits.kv_heads;
  in.group = limits.num_heads / limits.kv_heads;
  in.columns = kLeastColumns;
  in.num_multiprocessors = limits.num_multiprocessors;
  const int64_t keys = std::min(int64_t{limits.max_seqs} * limits.max_context, kMostKeys);
  DecodePlanShape shape = decode_plan_shape(in, limits.max_seqs, 1, keys);
  // One piece in sections, with all heads in one group.
  const auto rows = kPieceRows * static_cast<int32_t>(limits.max_context / kSection + 2);
  shape.max_parts = std::max(shape.max_parts, rows);
  shape.max_items = std::max(
      shape.max_items, rows * static_cast<int32_t>(ceil_div(limits.num_heads, kLeastColumns)));
  shape.max_rows = std::max(limits.max_tokens, kPieceRows);
  return shape;
}

PrefillPlanShape prefill_capacity(const AttentionLimits& limits) {
  PrefillLimits prefill = {
      .tile_rows = kLeastTileRows, .max_seqs = limits.max_seqs, .max_rows = limits.max_tokens};
  if (!limits.prefill_knows_spans || limits.max_context <= kWholeKeys)
    return prefill_plan_shape(prefill);
  prefill.span_keys = kSpanKeys - kMostTileKeys;
  const int32_t spans = limits.max_context / prefill.span_keys + 1;
  const int64_t tile = int64_t{std::min(limits.max_tokens, kMostTileRows)} * spans;
  const int64_t room =
      kMostPartBytes / PrefillPlanShape::part_bytes(limits.num_heads, limits.head_dim);
  prefill.max_spans = spans;
  prefill.max_parts =
      static_cast<int32_t>(std::min(std::max(room, tile), int64_t{limits.max_tokens} * spans));
  return prefill_plan_shape(prefill);
}

}  // namespace pagoda::cuda
