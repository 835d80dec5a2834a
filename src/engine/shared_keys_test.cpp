#include "engine/shared_keys.h"

#include <gtest/gtest.h>

namespace pagoda {
namespace {

constexpr int32_t kBlockSize = 128;

// Sequences of one new row each.
std::vector<SharedKeys> groups_of(const std::vector<std::vector<int32_t>>& tables,
                                  const std::vector<int32_t>& kv_lens) {
  std::vector<int32_t> cu_q_lens = {0}, all;
  for (const std::vector<int32_t>& table : tables) {
    cu_q_lens.push_back(cu_q_lens.back() + 1);
    all.insert(all.end(), table.begin(), table.end());
    all.resize(cu_q_lens.back() * 8, -1);
  }
  std::vector<SharedKeys> groups = {{7, 7, 7}};
  find_shared_keys({cu_q_lens, kv_lens, all, 8, kBlockSize}, groups);
  return groups;
}

TEST(SharedKeys, neighbours_that_begin_alike_are_a_group) {
  const auto groups = groups_of({{9}, {1, 2, 3, 4}, {1, 2, 3, 5}, {1, 2, 6}, {6, 7, 8}, {6, 7, 3}},
                                {20, 500, 500, 300, 300, 300});
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].first_seq, 1);
  EXPECT_EQ(groups[0].num_seqs, 3);
  EXPECT_EQ(groups[0].num_keys, 2 * kBlockSize);
  EXPECT_EQ(groups[1].first_seq, 4);
  EXPECT_EQ(groups[1].num_seqs, 2);
}

TEST(SharedKeys, a_block_that_this_step_writes_is_not_shared) {
  EXPECT_TRUE(groups_of({{1, 2}, {1, 2}}, {256, 256}).empty());
  EXPECT_EQ(groups_of({{1, 2}, {1, 2}}, {257, 257}).size(), 1u);
}

TEST(SharedKeys, blocks_that_a_window_left_behind_are_not_shared) {
  EXPECT_TRUE(groups_of({{-1, -1, 3}, {-1, -1, 3}}, {500, 500}).empty());
}

TEST(SharedKeys, one_more_that_shares_little_does_not_cost_the_others_what_they_share) {
  const auto groups =
      groups_of({{1, 2, 3, 4, 5, 6, 7}, {1, 2, 3, 4, 5, 6, 7}, {1, 2, 8}}, {900, 900, 300});
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].num_seqs, 2);
  EXPECT_EQ(groups[0].num_keys, 7 * kBlockSize);
}

}  // namespace
}  // namespace pagoda
