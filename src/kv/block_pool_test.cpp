#include "kv/block_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <set>

namespace pagoda {
namespace {

TEST(BlockPool, take_gives_the_lowest_free_id) {
  BlockPool pool(130);
  for (int32_t i = 0; i < 130; i++) EXPECT_EQ(pool.take()->block, i);
  for (const int32_t block : {100, 3, 64}) pool.release(block);
  EXPECT_EQ(pool.take()->block, 3);
  EXPECT_EQ(pool.take()->block, 64);
  EXPECT_EQ(pool.take()->block, 100);
}

TEST(BlockPool, take_says_when_all_are_referenced) {
  BlockPool pool(1);
  ASSERT_TRUE(pool.take());
  EXPECT_FALSE(pool.take());
}

TEST(BlockPool, cached_blocks_are_evicted_in_the_order_of_release_after_free_ones) {
  BlockPool pool(4);
  for (int i = 0; i < 3; i++) (void)pool.take();
  for (const int32_t block : {2, 0, 1}) {
    pool.set_cached(block);
    pool.release(block);
  }
  EXPECT_EQ(pool.take()->block, 3);
  for (const int32_t expected : {2, 0, 1}) {
    const auto taken = pool.take();
    EXPECT_EQ(taken->block, expected);
    EXPECT_TRUE(taken->was_cached);
    EXPECT_FALSE(pool.is_cached(expected));
  }
}

TEST(BlockPool, a_hit_takes_a_block_out_of_the_eviction_order) {
  BlockPool pool(2);
  for (int32_t block = 0; block < 2; block++) {
    (void)pool.take();
    pool.set_cached(block);
    pool.release(block);
  }
  pool.add_reference(0);
  EXPECT_EQ(pool.take()->block, 1);
  EXPECT_FALSE(pool.take());
}

TEST(BlockPool, random_operations_match_a_model_of_sets) {
  constexpr int32_t kBlocks = 70;
  std::mt19937 random(7);
  BlockPool pool(kBlocks);
  std::set<int32_t> free, cached;
  std::deque<int32_t> idle;
  std::map<int32_t, int32_t> references;
  for (int32_t block = 0; block < kBlocks; block++) free.insert(block);
  const auto any_referenced = [&] {
    return std::next(references.begin(), random() % references.size())->first;
  };
  for (int step = 0; step < 20000; step++) {
    const uint32_t what = random() % 8;
    if (what < 3) {
      const auto taken = pool.take();
      ASSERT_EQ(taken.has_value(), !free.empty() || !idle.empty());
      if (!taken) continue;
      ASSERT_EQ(taken->block, free.empty() ? idle.front() : *free.begin());
      if (free.empty()) {
        cached.erase(idle.front());
        idle.pop_front();
      } else {
        free.erase(free.begin());
      }
      references[taken->block] = 1;
    } else if (what < 6 && !references.empty()) {
      const int32_t block = any_referenced();
      pool.release(block);
      if (--references[block] > 0) continue;
      references.erase(block);
      if (cached.contains(block))
        idle.push_back(block);
      else
        free.insert(block);
    } else if (what == 6 && !references.empty()) {
      const int32_t block = any_referenced();
      if (cached.insert(block).second) pool.set_cached(block);
    } else if (what == 7 && !idle.empty()) {
      const int32_t block = idle[random() % idle.size()];
      if (random() % 3 == 0) {
        pool.clear_cached(block);
        cached.erase(block);
        free.insert(block);
      } else {
        pool.add_reference(block);
        references[block] = 1;
      }
      idle.erase(std::ranges::find(idle, block));
    }
    ASSERT_EQ(pool.num_free(), std::ssize(free));
    ASSERT_EQ(pool.num_referenced(), std::ssize(references));
    ASSERT_EQ(pool.idle_blocks(), std::vector<int32_t>(idle.begin(), idle.end()));
  }
}

}  // namespace
}  // namespace pagoda
