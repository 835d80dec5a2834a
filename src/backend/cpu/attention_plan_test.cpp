#include "backend/cpu/attention_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <tuple>

namespace pagoda::cpu {
namespace {

struct Batch {
  std::vector<int32_t> bounds{0}, kv_lens, table;
  AttentionBatch view() const { return {bounds, kv_lens, table, 1, bounds, kv_lens}; }
};

Batch batch_of(const std::vector<std::pair<int32_t, int32_t>>& lengths) {
  Batch batch;
  for (const auto& [q_len, kv_len] : lengths) {
    batch.bounds.push_back(batch.bounds.back() + q_len);
    batch.kv_lens.push_back(kv_len);
    batch.table.push_back(0);
  }
  return batch;
}

AttentionPlan plan_of(
    const Batch& batch, int32_t kv_heads, int32_t group, int32_t window, int threads) {
  const AttentionBatch view = batch.view();
  return plan_attention({.batch = view,
                         .kv_heads = kv_heads,
                         .group = group,
                         .dim = 64,
                         .window = window,
                         .num_threads = threads});
}

Batch random_batch(std::mt19937& random) {
  std::vector<std::pair<int32_t, int32_t>> lengths;
  const int sequences = 1 + static_cast<int>(random() % 5);
  for (int i = 0; i < sequences; i++) {
    const auto kv_len = static_cast<int32_t>(1 + random() % 2000);
    const auto q_len = static_cast<int32_t>(random() % 3 ? 1 : random() % (kv_len + 1));
    lengths.push_back({q_len, kv_len});
  }
  return batch_of(lengths);
}

TEST(AttentionPlan, covers_every_row_and_every_chunk_that_it_sees_once) {
  std::mt19937 random(3);
  for (int i = 0; i < 60; i++) {
    const Batch batch = random_batch(random);
    const auto kv_heads = static_cast<int32_t>(1 + random() % 4);
    const auto group = static_cast<int32_t>(1 + random() % 9);
    const auto window = static_cast<int32_t>(random() % 2 ? 0 : 1 + random() % 700);
    const AttentionPlan plan =
        plan_of(batch, kv_heads, group, window, static_cast<int>(1 + random() % 9));
    std::map<std::tuple<int32_t, int32_t, int32_t, int32_t>, int> seen;
    for (const AttentionItem& item : plan.items)
      for (int32_t row = item.row_begin; row < item.row_begin + item.num_rows; row++)
        for (int32_t chunk = item.chunk_begin; chunk < item.chunk_end; chunk++)
          seen[{item.first_token, item.kv_head, row, chunk}]++;
    for (const auto& [where, times] : seen) ASSERT_EQ(times, 1);
    for (size_t b = 0; b < batch.kv_lens.size(); b++)
      for (int32_t row = 0; row < (batch.bounds[b + 1] - batch.bounds[b]) * group; row++) {
        const int32_t position =
            batch.kv_lens[b] - (batch.bounds[b + 1] - batch.bounds[b]) + row / group;
        const int32_t first = window ? std::max(0, position + 1 - window) : 0;
        for (int32_t h = 0; h < kv_heads; h++)
          for (int32_t chunk = first / kChunkTokens; chunk <= position / kChunkTokens; chunk++)
            ASSERT_TRUE((seen.count({batch.bounds[b], h, row, chunk})));
      }
  }
}

TEST(AttentionPlan, partials_of_split_items_lie_apart_and_within_the_bound) {
  std::mt19937 random(4);
  int splits = 0;
  for (int i = 0; i < 300; i++) {
    const Batch batch = random_batch(random);
    const auto group = static_cast<int32_t>(1 + random() % 40);
    const int threads = static_cast<int>(2 + random() % 9);
    const AttentionPlan plan = plan_of(batch, 1, group, 0, threads);
    int64_t used = 0;
    for (const AttentionItem& item : plan.merges) {
      ASSERT_EQ(item.partials, used);
      used += (item.chunk_end - item.split_chunk + 1) * partial_floats(item.num_rows, 64);
      splits++;
    }
    ASSERT_EQ(used, plan.partial_floats);
    ASSERT_LE(used, max_partial_floats(2000, 64, threads));
  }
  EXPECT_GT(splits, 100);
}

TEST(AttentionPlan, a_long_sequence_is_shared_equally_by_all_threads) {
  for (int threads : {2, 3, 8}) {
    const AttentionPlan plan = plan_of(batch_of({{1, 16384}}), 3, 3, 0, threads);
    ASSERT_EQ(plan.thread_begin.size(), threads + 1u);
    const int32_t all = 3 * 16384 / kChunkTokens;
    for (int t = 0; t < threads; t++) {
      int32_t chunks = 0;
      for (int32_t i = plan.thread_begin[t]; i < plan.thread_begin[t + 1]; i++)
        chunks += plan.items[i].chunk_end - plan.items[i].chunk_begin;
      EXPECT_NEAR(chunks, all / threads, 1);
    }
  }
}

TEST(AttentionPlan, a_short_decode_step_wakes_nobody) {
  EXPECT_EQ(plan_of(batch_of({{1, 100}}), 3, 3, 0, 2).num_threads, 1);
  EXPECT_EQ(plan_of(batch_of({{1, 4096}}), 3, 3, 0, 2).num_threads, 2);
}

TEST(AttentionPlan, a_prompt_is_never_split_over_keys_when_items_are_plenty) {
  const AttentionPlan plan = plan_of(batch_of({{512, 4608}}), 3, 3, 0, 2);
  EXPECT_TRUE(plan.merges.empty());
  for (const AttentionItem& item : plan.items) EXPECT_EQ(item.kind, ItemKind::whole);
}

}  // namespace
}  // namespace pagoda::cpu
