#include "backend/cuda/prefill_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <random>
#include <set>

namespace pagoda::cuda {
namespace {

struct Batch {
  std::vector<int32_t> cu_q_lens = {0}, kv_lens;
  void add(int32_t q_len, int32_t kv_len) {
    cu_q_lens.push_back(cu_q_lens.back() + q_len);
    kv_lens.push_back(kv_len);
  }
  PrefillPlanInput input() const { return {.cu_q_lens = cu_q_lens, .kv_lens = kv_lens}; }
};

Batch random_batch(std::mt19937& random) {
  Batch batch;
  const int32_t n = static_cast<int32_t>(random() % 9);
  for (int32_t b = 0; b < n; b++) {
    const int32_t kv_len = static_cast<int32_t>(random() % (random() % 4 ? 400 : 9000));
    const int32_t most = std::max(1, random() % 8 ? kv_len : kv_len + 50);
    batch.add(static_cast<int32_t>(random() % most), kv_len);
  }
  return batch;
}

// What the kernel computes of a row: the keys it sees.
struct Keys {
  int32_t begin, end;
};
Keys keys_of(const PrefillTile& t, int32_t r, int32_t window) {
  const int32_t end = std::min(t.kv_len, t.limit + r);
  return {window > 0 ? std::max(0, t.limit + r - window) : 0, end};
}

// Fails unless each row is in one tile, or in one of each span that its tile's rows see, and the
// tiles cover exactly the key tiles that their rows see.
void expect_covered(const PrefillPlanInput& in, const PrefillPlan& plan) {
  std::map<int32_t, std::vector<PrefillTile>> tiles_of;  // first row: in the order of keys
  for (const PrefillTile& t : plan.tiles) tiles_of[t.row].push_back(t);
  std::vector<int32_t> seen(in.cu_q_lens.back(), 0);
  std::set<int32_t> parts;
  for (auto& [row, tiles] : tiles_of) {
    std::sort(tiles.begin(), tiles.end(), [](const PrefillTile& a, const PrefillTile& b) {
      return a.tile_begin < b.tile_begin;
    });
    const PrefillTile& t = tiles[0];
    ASSERT_GE(t.num_rows, 1);
    ASSERT_LE(t.num_rows, in.tile_rows);
    const int32_t first = in.cu_q_lens[t.seq], end = in.cu_q_lens[t.seq + 1];
    ASSERT_EQ(t.kv_len, in.kv_lens[t.seq]);
    int32_t key_begin = INT32_MAX, key_end = 0;
    for (int32_t r = 0; r < t.num_rows; r++) {
      ASSERT_LT(t.row + r, end);
      seen[t.row + r]++;
      const Keys keys = keys_of(t, r, in.window);
      const int32_t position = t.kv_len - (end - first) + (t.row + r - first);
      ASSERT_EQ(keys.end, in.mask == PrefillMask::full ? t.kv_len : position + 1);
      ASSERT_EQ(t.part != kNoPart, in.span_tiles > 0 && keys.end - keys.begin > in.whole_keys);
      if (keys.begin >= keys.end) continue;
      key_begin = std::min(key_begin, keys.begin);
      key_end = std::max(key_end, keys.end);
    }
    for (size_t i = 0; i < tiles.size(); i++) {
      ASSERT_LT(tiles[i].tile_begin, tiles[i].tile_end);
      ASSERT_EQ(tiles[i].num_rows, t.num_rows);
      if (t.part == kNoPart) continue;
      if (i > 0) {
        ASSERT_EQ(tiles[i].tile_begin, tiles[i - 1].tile_end);
        ASSERT_EQ(tiles[i].tile_begin % in.span_tiles, 0);
      }
      ASSERT_EQ(tiles[i].part, t.part + static_cast<int32_t>(i) * t.num_rows);
      const int32_t most = in.span_tiles + (i + 1 < tiles.size() ? 0 : in.span_tiles / 8);
      ASSERT_LE(tiles[i].tile_end - tiles[i].tile_begin / in.span_tiles * in.span_tiles, most);
      for (int32_t r = 0; r < t.num_rows; r++) ASSERT_TRUE(parts.insert(tiles[i].part + r).second);
    }
    ASSERT_TRUE(t.part != kNoPart || tiles.size() == 1);
    if (key_end == 0) continue;
    ASSERT_EQ(t.tile_begin, key_begin / in.tile_keys);
    ASSERT_EQ(tiles.back().tile_end, (key_end + in.tile_keys - 1) / in.tile_keys);
  }
  for (int32_t n : seen) ASSERT_EQ(n, 1);
  ASSERT_EQ(plan.header.num_parts, static_cast<int32_t>(parts.size()));
  ASSERT_TRUE(parts.empty() || *parts.rbegin() == plan.header.num_parts - 1);
}

// What joins a row's spans is told of each of them.
void expect_merged(const PrefillPlan& plan) {
  std::map<int32_t, std::pair<int32_t, int32_t>> spans;  // first row: first part, count
  for (const PrefillTile& t : plan.tiles) {
    if (t.part == kNoPart) continue;
    auto [at, is_new] = spans.insert({t.row, {t.part, 0}});
    at->second.first = std::min(at->second.first, t.part);
    at->second.second++;
  }
  ASSERT_EQ(plan.merges.size(), spans.size());
  ASSERT_EQ(plan.header.num_merges, static_cast<int32_t>(spans.size()));
  for (const PrefillMerge& m : plan.merges) {
    ASSERT_EQ(spans.at(m.row).first, m.part);
    ASSERT_EQ(spans.at(m.row).second, m.num_spans);
  }
}

void choose(std::mt19937& random, PrefillPlanInput& in) {
  in.tile_rows = random() % 2 ? 128 : 192;
  in.tile_keys = random() % 2 ? 128 : 80;
  if (random() % 2) in.span_tiles = 1 + static_cast<int32_t>(random() % 10);
  in.whole_keys = static_cast<int32_t>(random() % 1500);
  in.window = random() % 2 ? 0 : 1 + static_cast<int32_t>(random() % 2500);
  if (in.window == 0 && random() % 3 == 0) in.mask = PrefillMask::full;
}

TEST(PrefillPlan, every_row_of_thousands_of_random_batches_is_in_one_tile) {
  std::mt19937 random(1);
  for (int i = 0; i < 3000; i++) {
    const Batch batch = random_batch(random);
    PrefillPlanInput in = batch.input();
    choose(random, in);
    const std::vector<PrefillPlan> plans = plan_prefill(in);
    ASSERT_EQ(plans.size(), 1u);
    expect_covered(in, plans[0]);
    expect_merged(plans[0]);
    if (HasFatalFailure()) return;
  }
}

// The spans in which a row of a sequence sees keys; one that is kEverything long where the row is
// attended whole.
using Spans = std::map<int32_t, int32_t>;
std::map<int32_t, Spans> spans_by_position(const PrefillPlanInput& in, int32_t first_position) {
  std::map<int32_t, Spans> of;
  for (const PrefillPlan& plan : plan_prefill(in))
    for (const PrefillTile& t : plan.tiles)
      for (int32_t r = 0; r < t.num_rows; r++) {
        const Keys keys = keys_of(t, r, in.window);
        const int32_t begin = std::max(keys.begin, t.tile_begin * in.tile_keys);
        const int32_t end = std::min(keys.end, t.tile_end * in.tile_keys);
        if (begin >= end) continue;
        Spans& spans = of[first_position + t.row + r];
        if (t.part == kNoPart)
          spans[0] = kEverything;
        else
          spans[begin] = end;
      }
  return of;
}

TEST(PrefillPlan, a_rows_spans_are_the_same_however_its_sequence_is_cut) {
  std::mt19937 random(4);
  for (int i = 0; i < 300; i++) {
    const auto cached = static_cast<int32_t>(random() % 3000);
    const auto rows = static_cast<int32_t>(1 + random() % 900);
    Batch whole;
    whole.add(rows, cached + rows);
    PrefillPlanInput in = whole.input();
    choose(random, in);
    in.mask = PrefillMask::causal;
    const auto expected = spans_by_position(in, cached);
    ASSERT_EQ(static_cast<int32_t>(expected.size()), rows);
    std::map<int32_t, Spans> found;
    for (int32_t at = 0; at < rows;) {
      const auto count = std::min<int32_t>(rows - at, 1 + static_cast<int32_t>(random() % 300));
      Batch chunk;
      chunk.add(count, cached + at + count);
      PrefillPlanInput part = in;
      part.cu_q_lens = chunk.cu_q_lens, part.kv_lens = chunk.kv_lens;
      found.merge(spans_by_position(part, cached + at));
      at += count;
    }
    ASSERT_EQ(found, expected);
  }
}

TEST(PrefillPlan, a_launch_has_no_more_parts_than_there_is_room_for) {
  std::mt19937 random(5);
  for (int i = 0; i < 500; i++) {
    const Batch batch = random_batch(random);
    PrefillPlanInput in = batch.input();
    in.span_tiles = 3, in.whole_keys = 400;
    in.max_parts = 128 * 25 + static_cast<int32_t>(random() % 5000);
    PrefillPlan all;
    for (const PrefillPlan& plan : plan_prefill(in)) {
      ASSERT_LE(plan.header.num_parts, in.max_parts);
      expect_merged(plan);
      all.tiles.insert(all.tiles.end(), plan.tiles.begin(), plan.tiles.end());
    }
    std::vector<int32_t> seen(in.cu_q_lens.back(), 0);
    for (const PrefillTile& t : all.tiles)
      if (t.tile_end * in.tile_keys >= std::min(t.kv_len, t.limit + t.num_rows - 1))
        for (int32_t r = 0; r < t.num_rows; r++) seen[t.row + r]++;
    for (int32_t n : seen) ASSERT_EQ(n, 1);
  }
}

TEST(PrefillPlan, a_short_rest_is_no_span_of_its_own) {
  for (const auto& [keys, spans, longest] :
       {std::array{32768 + 1024, 4, 72}, {32768 + 1152, 5, 64}, {20480, 1, 160}, {20608, 3, 64}}) {
    Batch batch;
    batch.add(128, keys);
    PrefillPlanInput in = batch.input();
    in.span_tiles = 64;
    const PrefillPlan plan = plan_prefill(in)[0];
    ASSERT_EQ(static_cast<int32_t>(plan.tiles.size()), spans);
    EXPECT_EQ(plan.tiles[0].tile_end - plan.tiles[0].tile_begin, longest);
  }
}

TEST(PrefillPlan, row_tiles_of_one_span_are_side_by_side) {
  Batch batch;
  batch.add(512, 40960);
  PrefillPlanInput in = batch.input();
  in.span_tiles = 64;
  const PrefillPlan plan = plan_prefill(in)[0];
  ASSERT_EQ(plan.tiles.size(), 4u * 5);
  for (size_t i = 0; i < plan.tiles.size(); i++)
    EXPECT_EQ(plan.tiles[i].tile_begin, static_cast<int32_t>(i / 4) * 64);
}

TEST(PrefillPlan, longest_tiles_come_first) {
  std::mt19937 random(2);
  for (int i = 0; i < 200; i++) {
    const Batch batch = random_batch(random);
    const PrefillPlan plan = plan_prefill(batch.input())[0];
    EXPECT_TRUE(std::is_sorted(
        plan.tiles.begin(), plan.tiles.end(), [](const PrefillTile& a, const PrefillTile& b) {
          return a.tile_end - a.tile_begin > b.tile_end - b.tile_begin;
        }));
  }
}

TEST(PrefillPlan, only_the_named_sequences_are_planned) {
  Batch batch;
  for (int32_t q : {1, 300, 1, 200}) batch.add(q, 1000);
  PrefillPlanInput in = batch.input();
  const int32_t seqs[] = {1, 3};
  in.seqs = seqs;
  std::set<int32_t> planned;
  int32_t num_rows = 0;
  const PrefillPlan plan = plan_prefill(in)[0];
  for (const PrefillTile& t : plan.tiles) {
    planned.insert(t.seq);
    num_rows += t.num_rows;
  }
  EXPECT_THAT(planned, testing::ElementsAre(1, 3));
  EXPECT_EQ(num_rows, 500);
}

TEST(PrefillPlan, a_window_skips_key_tiles_that_no_row_sees) {
  Batch batch;
  batch.add(128, 4096);
  PrefillPlanInput in = batch.input();
  in.window = 100;
  const PrefillPlan plan = plan_prefill(in)[0];
  ASSERT_EQ(plan.tiles.size(), 1u);
  EXPECT_EQ(plan.tiles[0].tile_begin, (4096 - 127 - 100) / 128);
  EXPECT_EQ(plan.tiles[0].tile_end, 32);
}

TEST(PrefillPlan, any_batch_of_the_shape_fits) {
  std::mt19937 random(3);
  for (int i = 0; i < 1000; i++) {
    const Batch batch = random_batch(random);
    PrefillPlanInput in = batch.input();
    PrefillLimits limits = {.max_seqs = static_cast<int32_t>(batch.kv_lens.size()),
                            .max_rows = batch.cu_q_lens.back()};
    if (random() % 2) {
      in.span_tiles = 3, in.whole_keys = 400;
      limits.span_keys = 3 * 128;
      limits.max_spans = 9000 / limits.span_keys + 1;
      limits.max_parts = in.max_parts = 128 * 25 + static_cast<int32_t>(random() % 20000);
    }
    const PrefillPlanShape shape = prefill_plan_shape(limits);
    for (const PrefillPlan& plan : plan_prefill(in)) {
      EXPECT_LE(plan.header.num_tiles, shape.max_tiles);
      EXPECT_LE(plan.header.num_merges, shape.max_merges);
      EXPECT_LE(plan.header.num_parts, shape.max_parts);
    }
  }
}

TEST(PrefillPlan, is_written_to_every_byte) {
  Batch batch;
  batch.add(200, 200);
  const PrefillPlan plan = plan_prefill(batch.input())[0];
  const PrefillPlanShape shape = {5, 2, 0};
  std::vector<std::byte> a(shape.num_bytes(), std::byte{0xFF}), b(shape.num_bytes());
  write_plan(plan, shape, a);
  write_plan(plan, shape, b);
  EXPECT_EQ(a, b);
  PrefillTile first;
  std::memcpy(&first, a.data() + PrefillPlanShape::tiles_offset(), sizeof first);
  EXPECT_EQ(first.row, 128);  // the longer of the two
}

TEST(PrefillPlan, sections_are_whole_kv_heads_and_divide_the_heads) {
  for (int32_t kv_heads : {1, 2, 3, 5, 7, 8, 32})
    for (int32_t group : {1, 2, 3, 4, 8, 16})
      for (int32_t head_dim : {64, 256})
        for (int32_t crowd = 0; crowd < kCrowds; crowd++) {
          const int32_t section =
              prefill_section_heads(kv_heads * group, kv_heads, head_dim, crowd);
          EXPECT_GT(section, 0);
          EXPECT_EQ(section % group, 0);
          EXPECT_EQ(kv_heads * group % section, 0);
        }
  EXPECT_EQ(prefill_section_heads(32, 8, 128, 0), 16);
  EXPECT_EQ(prefill_section_heads(32, 8, 128, 1), 8);
  EXPECT_EQ(prefill_section_heads(32, 8, 128, 2), 4);
  EXPECT_EQ(prefill_section_heads(32, 32, 256, 2), 2);
}

TEST(PrefillPlan, says_how_many_sequences_there_are) {
  for (const auto& [seqs, crowd] : {std::pair{1, 0}, {2, 0}, {3, 1}, {8, 1}, {9, 2}, {100, 2}}) {
    Batch batch;
    for (int i = 0; i < seqs; i++) batch.add(300, 300);
    batch.add(0, 50);  // has no rows
    EXPECT_EQ(plan_prefill(batch.input())[0].header.crowd, crowd) << seqs;
  }
}

}  // namespace
}  // namespace pagoda::cuda
