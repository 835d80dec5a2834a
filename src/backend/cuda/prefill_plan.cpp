#include "backend/cuda/prefill_plan.h"

#include <algorithm>
#include <cstring>

#include "base/checked.h"
#include "base/error.h"

namespace pagoda::cuda {
namespace {

// Rows [begin, end) of a sequence's, as tiles over all the keys that they see.
void add_tiles(const PrefillPlanInput& in,
               int32_t seq,
               int32_t begin,
               int32_t end,
               std::vector<PrefillTile>& tiles) {
  const int32_t first = in.cu_q_lens[seq], num_rows = in.cu_q_lens[seq + 1] - first;
  const int32_t kv_len = in.kv_lens[seq];
  for (int32_t at = begin; at < end; at += in.tile_rows) {
    PrefillTile t = {};
    t.row = first + at;
    t.num_rows = std::min(in.tile_rows, end - at);
    t.kv_len = kv_len;
    t.limit = in.mask == PrefillMask::full ? kFull : kv_len - num_rows + at + 1;
    t.seq = seq;
    t.part = kNoPart;
    const int32_t key_end = std::min(kv_len, t.limit + t.num_rows - 1);
    const int32_t first_key = in.window > 0 ? std::max(0, t.limit - in.window) : 0;
    t.tile_begin = first_key / in.tile_keys;
    t.tile_end = std::max(t.tile_begin + 1, (key_end + in.tile_keys - 1) / in.tile_keys);
    tiles.push_back(t);
  }
}

// The first of a sequence's rows that is attended in spans: by the number of keys that the row
// sees, which its own position decides.
int32_t first_row_in_spans(const PrefillPlanInput& in, int32_t seq) {
  const int32_t num_rows = in.cu_q_lens[seq + 1] - in.cu_q_lens[seq], kv_len = in.kv_lens[seq];
  if (in.span_tiles == 0 || (in.window > 0 && in.window <= in.whole_keys)) return num_rows;
  if (in.mask == PrefillMask::full) return kv_len > in.whole_keys ? 0 : num_rows;
  return std::clamp(in.whole_keys - (kv_len - num_rows), 0, num_rows);
}

struct RowTiles {
  std::vector<PrefillTile> whole, in_spans;
};
RowTiles row_tiles(const PrefillPlanInput& in) {
  RowTiles tiles;
  const auto add = [&](int32_t seq) {
    const int32_t num_rows = in.cu_q_lens[seq + 1] - in.cu_q_lens[seq];
    const int32_t middle = first_row_in_spans(in, seq);
    add_tiles(in, seq, 0, middle, tiles.whole);
    add_tiles(in, seq, middle, num_rows, tiles.in_spans);
  };
  if (in.seqs.empty())
    for (size_t b = 0; b < in.kv_lens.size(); b++) add(static_cast<int32_t>(b));
  for (int32_t seq : in.seqs) add(seq);
  return tiles;
}

int32_t num_spans(const PrefillPlanInput& in, const PrefillTile& t) {
  return (t.tile_end - 1) / in.span_tiles - t.tile_begin / in.span_tiles + 1;
}

// Row tiles that see the same span side by side: they find it in the L2 cache.
void add_spans(const PrefillPlanInput& in,
               std::span<const PrefillTile> row_tiles,
               PrefillPlan& plan) {
  int32_t key_tiles = 0;
  for (const PrefillTile& t : row_tiles) {
    plan.merges.push_back({t.row, t.num_rows, plan.header.num_parts, num_spans(in, t)});
    plan.header.num_parts += num_spans(in, t) * t.num_rows;
    key_tiles = std::max(key_tiles, t.tile_end);
  }
  for (int32_t begin = 0; begin < key_tiles; begin += in.span_tiles)
    for (size_t i = 0; i < row_tiles.size(); i++) {
      PrefillTile t = row_tiles[i];
      const int32_t skipped = begin / in.span_tiles - t.tile_begin / in.span_tiles;
      t.part = plan.merges[i].part + skipped * t.num_rows;
      t.tile_begin = std::max(t.tile_begin, begin);
      t.tile_end = std::min(t.tile_end, begin + in.span_tiles);
      if (t.tile_begin < t.tile_end) plan.tiles.push_back(t);
    }
}

// How many row tiles, from the first on, one launch has room for.
size_t count_fitting(const PrefillPlanInput& in, std::span<const PrefillTile> row_tiles) {
  int64_t parts = 0;
  for (size_t i = 0; i < row_tiles.size(); i++) {
    parts += int64_t{num_spans(in, row_tiles[i])} * row_tiles[i].num_rows;
    if (parts > in.max_parts) return i;
  }
  return row_tiles.size();
}

void finish(PrefillPlan& plan) {
  std::stable_sort(
      plan.tiles.begin(), plan.tiles.end(), [](const PrefillTile& a, const PrefillTile& b) {
        return a.tile_end - a.tile_begin > b.tile_end - b.tile_begin;
      });
  plan.header.num_tiles = static_cast<int32_t>(plan.tiles.size());
  plan.header.num_merges = static_cast<int32_t>(plan.merges.size());
}

}  // namespace

std::vector<PrefillPlan> plan_prefill(const PrefillPlanInput& in) {
  PG_CHECK(in.cu_q_lens.size() == in.kv_lens.size() + 1,
           "{} offsets, {} lengths",
           in.cu_q_lens.size(),
           in.kv_lens.size());
  PG_CHECK(in.mask == PrefillMask::causal || in.window == 0, "a window without a causal mask");
  RowTiles tiles = row_tiles(in);
  std::vector<PrefillPlan> plans(1);
  plans[0].tiles = std::move(tiles.whole);
  for (std::span<const PrefillTile> left = tiles.in_spans; !left.empty();) {
    const size_t count = count_fitting(in, left);
    PG_CHECK(count > 0, "a row tile of {} spans, {} parts", num_spans(in, left[0]), in.max_parts);
    add_spans(in, left.first(count), plans.back());
    left = left.subspan(count);
    if (!left.empty()) plans.emplace_back();
  }
  for (PrefillPlan& plan : plans) finish(plan);
  return plans;
}

PrefillPlanShape shape_of(const PrefillPlan& plan) {
  return {.max_tiles = plan.header.num_tiles,
          .max_merges = plan.header.num_merges,
          .max_parts = plan.header.num_parts};
}

PrefillPlanShape prefill_plan_shape(const PrefillLimits& limits) {
  const int32_t seqs = std::min(limits.max_seqs, limits.max_rows);
  const int64_t whole = limits.max_rows / limits.tile_rows + seqs;
  if (limits.max_spans == 0) return {static_cast<int32_t>(whole), 0, 0};
  const int64_t in_spans = std::min(whole + seqs, int64_t{limits.max_parts});
  const int64_t tiles = whole + std::min(in_spans * limits.max_spans, int64_t{limits.max_parts});
  return {static_cast<int32_t>(tiles), static_cast<int32_t>(in_spans), limits.max_parts};
}

void write_plan(const PrefillPlan& plan, const PrefillPlanShape& shape, std::span<std::byte> out) {
  PG_CHECK(plan.header.num_tiles <= shape.max_tiles,
           "{} tiles of {}",
           plan.header.num_tiles,
           shape.max_tiles);
  PG_CHECK(plan.header.num_merges <= shape.max_merges && plan.header.num_parts <= shape.max_parts,
           "{} merges of {}, {} parts of {}",
           plan.header.num_merges,
           shape.max_merges,
           plan.header.num_parts,
           shape.max_parts);
  PG_CHECK(static_cast<int64_t>(out.size()) == shape.num_bytes(), "{} bytes", out.size());
  std::memset(out.data(), 0, out.size());
  std::memcpy(out.data(), &plan.header, sizeof plan.header);
  const auto write = [&](int64_t at, const auto& records) {
    if (records.empty()) return;
    std::memcpy(out.data() + at, records.data(), records.size() * sizeof records[0]);
  };
  write(PrefillPlanShape::tiles_offset(), plan.tiles);
  write(shape.merges_offset(), plan.merges);
}

int32_t prefill_section_heads(int32_t num_heads, int32_t kv_heads) {
  const int32_t group = num_heads / kv_heads;
  int32_t section = std::max(1, std::min(kv_heads, 4 / group));
  while (kv_heads % section != 0) section--;
  return section * group;
}

}  // namespace pagoda::cuda
