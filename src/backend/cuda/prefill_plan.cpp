#include "backend/cuda/prefill_plan.h"

#include <algorithm>
#include <cstring>

#include "base/checked.h"
#include "base/error.h"

namespace pagoda::cuda {
namespace {

void add_tiles(const PrefillPlanInput& in, int32_t seq, std::vector<PrefillTile>& tiles) {
  const int32_t first = in.cu_q_lens[seq], num_rows = in.cu_q_lens[seq + 1] - first;
  const int32_t kv_len = in.kv_lens[seq];
  for (int32_t at = 0; at < num_rows; at += in.tile_rows) {
    PrefillTile t = {};
    t.row = first + at;
    t.num_rows = std::min(in.tile_rows, num_rows - at);
    t.kv_len = kv_len;
    t.limit = in.mask == PrefillMask::full ? kFull : kv_len - num_rows + at + 1;
    t.seq = seq;
    const int32_t key_end = std::min(kv_len, t.limit + t.num_rows - 1);
    const int32_t first_key = in.window > 0 ? std::max(0, t.limit - in.window) : 0;
    t.tile_begin = first_key / in.tile_keys;
    t.tile_end = std::max(t.tile_begin + 1, (key_end + in.tile_keys - 1) / in.tile_keys);
    tiles.push_back(t);
  }
}

}  // namespace

PrefillPlan plan_prefill(const PrefillPlanInput& in) {
  PG_CHECK(in.cu_q_lens.size() == in.kv_lens.size() + 1,
           "{} offsets, {} lengths",
           in.cu_q_lens.size(),
           in.kv_lens.size());
  PG_CHECK(in.mask == PrefillMask::causal || in.window == 0, "a window without a causal mask");
  PrefillPlan plan;
  if (in.seqs.empty()) {
    for (size_t b = 0; b < in.kv_lens.size(); b++)
      add_tiles(in, static_cast<int32_t>(b), plan.tiles);
  }
  for (int32_t seq : in.seqs) add_tiles(in, seq, plan.tiles);
  std::stable_sort(
      plan.tiles.begin(), plan.tiles.end(), [](const PrefillTile& a, const PrefillTile& b) {
        return a.tile_end - a.tile_begin > b.tile_end - b.tile_begin;
      });
  plan.header.num_tiles = static_cast<int32_t>(plan.tiles.size());
  return plan;
}

PrefillPlanShape prefill_plan_shape(int32_t tile_rows, int32_t max_seqs, int32_t max_rows) {
  return {max_rows / tile_rows + std::min(max_seqs, max_rows)};
}

void write_plan(const PrefillPlan& plan, const PrefillPlanShape& shape, std::span<std::byte> out) {
  PG_CHECK(plan.header.num_tiles <= shape.max_tiles,
           "{} tiles of {}",
           plan.header.num_tiles,
           shape.max_tiles);
  PG_CHECK(static_cast<int64_t>(out.size()) == shape.num_bytes(), "{} bytes", out.size());
  std::memset(out.data(), 0, out.size());
  std::memcpy(out.data(), &plan.header, sizeof plan.header);
  if (!plan.tiles.empty())
    std::memcpy(out.data() + shape.tiles_offset(),
                plan.tiles.data(),
                plan.tiles.size() * sizeof(PrefillTile));
}

int32_t prefill_section_heads(int32_t num_heads, int32_t kv_heads) {
  const int32_t group = num_heads / kv_heads;
  int32_t section = std::max(1, std::min(kv_heads, 4 / group));
  while (kv_heads % section != 0) section--;
  return section * group;
}

}  // namespace pagoda::cuda
