#include "backend/cuda/prefill_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
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

// Fails unless each row is in one tile, which covers exactly the key tiles that its rows see.
void expect_covered(const PrefillPlanInput& in, const PrefillPlan& plan) {
  std::vector<int32_t> seen(in.cu_q_lens.back(), 0);
  for (const PrefillTile& t : plan.tiles) {
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
      if (keys.begin >= keys.end) continue;
      key_begin = std::min(key_begin, keys.begin);
      key_end = std::max(key_end, keys.end);
    }
    ASSERT_LT(t.tile_begin, t.tile_end);
    if (key_end > 0) {
      ASSERT_EQ(t.tile_begin, key_begin / in.tile_keys);
      ASSERT_EQ(t.tile_end, (key_end + in.tile_keys - 1) / in.tile_keys);
    }
  }
  for (int32_t n : seen) ASSERT_EQ(n, 1);
}

TEST(PrefillPlan, every_row_of_thousands_of_random_batches_is_in_one_tile) {
  std::mt19937 random(1);
  for (int i = 0; i < 3000; i++) {
    const Batch batch = random_batch(random);
    PrefillPlanInput in = batch.input();
    in.tile_rows = random() % 2 ? 128 : 192;
    in.tile_keys = random() % 2 ? 128 : 80;
    in.window = random() % 2 ? 0 : 1 + static_cast<int32_t>(random() % 300);
    if (in.window == 0 && random() % 3 == 0) in.mask = PrefillMask::full;
    expect_covered(in, plan_prefill(in));
    if (HasFatalFailure()) return;
  }
}

TEST(PrefillPlan, longest_tiles_come_first) {
  std::mt19937 random(2);
  for (int i = 0; i < 200; i++) {
    const Batch batch = random_batch(random);
    const PrefillPlan plan = plan_prefill(batch.input());
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
  for (const PrefillTile& t : plan_prefill(in).tiles) {
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
  const PrefillPlan plan = plan_prefill(in);
  ASSERT_EQ(plan.tiles.size(), 1u);
  EXPECT_EQ(plan.tiles[0].tile_begin, (4096 - 127 - 100) / 128);
  EXPECT_EQ(plan.tiles[0].tile_end, 32);
}

TEST(PrefillPlan, any_batch_of_the_shape_fits) {
  std::mt19937 random(3);
  for (int i = 0; i < 1000; i++) {
    const Batch batch = random_batch(random);
    const auto num_seqs = static_cast<int32_t>(batch.kv_lens.size());
    const PrefillPlanShape shape = prefill_plan_shape(128, num_seqs, batch.cu_q_lens.back());
    EXPECT_LE(plan_prefill(batch.input()).header.num_tiles, shape.max_tiles);
  }
}

TEST(PrefillPlan, is_written_to_every_byte) {
  Batch batch;
  batch.add(200, 200);
  const PrefillPlan plan = plan_prefill(batch.input());
  const PrefillPlanShape shape = {5};
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
    for (int32_t group : {1, 2, 3, 4, 8, 16}) {
      const int32_t section = prefill_section_heads(kv_heads * group, kv_heads);
      EXPECT_EQ(section % group, 0);
      EXPECT_EQ(kv_heads * group % section, 0);
    }
  EXPECT_EQ(prefill_section_heads(32, 8), 4);
  EXPECT_EQ(prefill_section_heads(32, 32), 4);
}

}  // namespace
}  // namespace pagoda::cuda
