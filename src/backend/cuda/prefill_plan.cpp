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

// How a row that ends `keys` keys is attended, which its position alone decides: whole, or in spans
// up to which one.
constexpr int32_t kWhole = -1;
constexpr int32_t kLeastOfSpan = 8;
int32_t span_keys(const PrefillPlanInput& in) {
  return in.span_tiles * in.tile_keys;
}
int32_t least_keys(const PrefillPlanInput& in) {  // fewer are no span of their own
  return in.span_tiles / kLeastOfSpan * in.tile_keys;
}
bool are_all_whole(const PrefillPlanInput& in) {
  return in.span_tiles == 0 || (in.window > 0 && in.window <= in.whole_keys);
}
int32_t last_span(const PrefillPlanInput& in, int32_t keys) {
  if (are_all_whole(in) || keys <= in.whole_keys) return kWhole;
  return std::max(0, keys - 1 - least_keys(in)) / span_keys(in);
}
// The most keys that a row may end which is attended like this one.
int32_t alike_up_to(const PrefillPlanInput& in, int32_t keys) {
  const int32_t last = last_span(in, keys);
  if (last == kWhole) return are_all_whole(in) ? kEverything : in.whole_keys;
  return least_keys(in) + (last + 1) * span_keys(in);
}

// All rows of a tile are attended alike.
struct RowTile {
  PrefillTile tile;
  int32_t first_span, last_span;
  int32_t num_spans() const { return last_span - first_span + 1; }
  int32_t num_parts() const { return num_spans() * tile.num_rows; }
};
std::vector<RowTile> row_tiles(const PrefillPlanInput& in) {
  std::vector<RowTile> row_tiles;
  const auto add = [&](int32_t seq) {
    const int32_t num_rows = in.cu_q_lens[seq + 1] - in.cu_q_lens[seq], kv_len = in.kv_lens[seq];
    for (int32_t begin = 0, end; begin < num_rows; begin = end) {
      const bool is_full = in.mask == PrefillMask::full;
      const int32_t keys = is_full ? kv_len : kv_len - num_rows + begin + 1;
      end = is_full ? num_rows : std::min(num_rows, begin + alike_up_to(in, keys) - keys + 1);
      const int32_t last = last_span(in, keys);
      std::vector<PrefillTile> tiles;
      add_tiles(in, seq, begin, end, tiles);
      for (const PrefillTile& t : tiles)
        row_tiles.push_back(
            {t, last == kWhole ? 0 : std::min(t.tile_begin / in.span_tiles, last), last});
    }
  };
  if (in.seqs.empty())
    for (size_t b = 0; b < in.kv_lens.size(); b++) add(static_cast<int32_t>(b));
  for (int32_t seq : in.seqs) add(seq);
  return row_tiles;
}

// Row tiles that see the same span side by side: they find it in the L2 cache.
void add_spans(const PrefillPlanInput& in, std::span<const RowTile> row_tiles, PrefillPlan& plan) {
  int32_t last_span = kWhole;
  for (const RowTile& r : row_tiles) {
    plan.merges.push_back({r.tile.row, r.tile.num_rows, plan.header.num_parts, r.num_spans()});
    plan.header.num_parts += r.num_parts();
    last_span = std::max(last_span, r.last_span);
  }
  for (int32_t span = 0; span <= last_span; span++)
    for (size_t i = 0; i < row_tiles.size(); i++) {
      const RowTile& r = row_tiles[i];
      if (span < r.first_span || span > r.last_span) continue;
      PrefillTile t = r.tile;
      t.part = plan.merges[i].part + (span - r.first_span) * t.num_rows;
      if (span > r.first_span) t.tile_begin = span * in.span_tiles;
      if (span < r.last_span) t.tile_end = (span + 1) * in.span_tiles;
      plan.tiles.push_back(t);
    }
}

// How many row tiles, from the first on, one launch has room for.
size_t count_fitting(const PrefillPlanInput& in, std::span<const RowTile> row_tiles) {
  int64_t parts = 0;
  for (size_t i = 0; i < row_tiles.size(); i++) {
    parts += row_tiles[i].num_parts();
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
  std::vector<int32_t> seqs;
  for (const PrefillTile& t : plan.tiles) seqs.push_back(t.seq);
  std::sort(seqs.begin(), seqs.end());
  const auto num_seqs = std::unique(seqs.begin(), seqs.end()) - seqs.begin();
  while (num_seqs > kCrowdSeqs[plan.header.crowd]) plan.header.crowd++;
}

}  // namespace

std::vector<PrefillPlan> plan_prefill(const PrefillPlanInput& in) {
  PG_CHECK(in.cu_q_lens.size() == in.kv_lens.size() + 1,
           "{} offsets, {} lengths",
           in.cu_q_lens.size(),
           in.kv_lens.size());
  PG_CHECK(in.mask == PrefillMask::causal || in.window == 0, "a window without a causal mask");
  std::vector<PrefillPlan> plans(1);
  std::vector<RowTile> in_spans;
  for (const RowTile& r : row_tiles(in))
    if (r.last_span == kWhole)
      plans[0].tiles.push_back(r.tile);
    else
      in_spans.push_back(r);
  for (std::span<const RowTile> left = in_spans; !left.empty();) {
    const size_t count = count_fitting(in, left);
    PG_CHECK(count > 0, "a row tile of {} spans, {} parts", left[0].num_spans(), in.max_parts);
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
  // A sequence's rows are cut where they are attended otherwise: once a span, and where spans
  // begin.
  const int64_t cuts = limits.max_rows / limits.span_keys + 2 * int64_t{seqs};
  const int64_t in_spans = std::min(whole + cuts, int64_t{limits.max_parts});
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

int32_t prefill_section_heads(int32_t num_heads,
                              int32_t kv_heads,
                              int32_t head_dim,
                              int32_t crowd) {
  const int32_t group = num_heads / kv_heads;
  const int32_t wanted = (16 >> crowd) / (head_dim > 128 ? 2 : 1);
  int32_t section = std::max(1, std::min(kv_heads, wanted / group));
  while (kv_heads % section != 0) section--;
  return section * group;
}

}  // namespace pagoda::cuda
