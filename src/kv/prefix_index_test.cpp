#include "kv/prefix_index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace pagoda {
namespace {

using Tokens = std::vector<int32_t>;

struct PrefixIndexTest : testing::Test {
  PrefixIndex index{2, 2, 8, 1};
};

TEST_F(PrefixIndexTest, finds_only_equal_tokens_under_the_same_parent) {
  const int32_t a = index.insert(PrefixIndex::kRoot, Tokens{1, 2}, "");
  const int32_t b = index.insert(a, Tokens{1, 2}, "");
  EXPECT_NE(a, b);
  EXPECT_EQ(index.find(PrefixIndex::kRoot, Tokens{1, 2}, ""), a);
  EXPECT_EQ(index.find(a, Tokens{1, 2}, ""), b);
  EXPECT_EQ(index.find(b, Tokens{1, 2}, ""), PrefixIndex::kNone);
  EXPECT_EQ(index.find(a, Tokens{2, 1}, ""), PrefixIndex::kNone);
}

TEST_F(PrefixIndexTest, separates_salts) {
  const int32_t plain = index.insert(PrefixIndex::kRoot, Tokens{1, 2}, "");
  EXPECT_EQ(index.find(PrefixIndex::kRoot, Tokens{1, 2}, "mine"), PrefixIndex::kNone);
  EXPECT_NE(index.insert(PrefixIndex::kRoot, Tokens{1, 2}, "mine"), plain);
}

TEST_F(PrefixIndexTest, insert_finds_what_is_there) {
  const int32_t a = index.insert(PrefixIndex::kRoot, Tokens{1, 2}, "x");
  EXPECT_EQ(index.insert(PrefixIndex::kRoot, Tokens{1, 2}, "x"), a);
  EXPECT_EQ(index.num_nodes(), 1);
}

TEST_F(PrefixIndexTest, a_node_lives_as_long_as_a_block_a_child_or_a_hold_needs_it) {
  const int32_t a = index.insert(PrefixIndex::kRoot, Tokens{1, 2}, "");
  const int32_t b = index.insert(a, Tokens{3, 4}, "");
  index.set_block(a, 0, 0);
  index.set_block(b, 1, 1);
  index.erase_block(0);
  EXPECT_EQ(index.block(a, 0), -1);
  EXPECT_EQ(index.find(PrefixIndex::kRoot, Tokens{1, 2}, ""), a);
  index.hold(b);
  index.erase_block(1);
  EXPECT_EQ(index.num_nodes(), 2);
  index.drop(b);
  EXPECT_EQ(index.num_nodes(), 0);
  EXPECT_EQ(index.find(PrefixIndex::kRoot, Tokens{1, 2}, ""), PrefixIndex::kNone);
}

TEST_F(PrefixIndexTest, a_cut_subtree_is_never_found_again) {
  const int32_t a = index.insert(PrefixIndex::kRoot, Tokens{1, 2}, "");
  const int32_t b = index.insert(a, Tokens{3, 4}, "");
  const int32_t c = index.insert(b, Tokens{5, 6}, "");
  const int32_t d = index.insert(b, Tokens{7, 8}, "");
  for (int32_t i = 0; const int32_t node : {a, b, c, d}) index.set_block(node, 0, i++);
  index.hold(c);
  std::vector<int32_t> blocks;
  index.cut(b, blocks);
  std::ranges::sort(blocks);
  EXPECT_EQ(blocks, (std::vector<int32_t>{1, 2, 3}));
  EXPECT_EQ(index.find(a, Tokens{3, 4}, ""), PrefixIndex::kNone);
  EXPECT_EQ(index.insert(c, Tokens{9, 9}, ""), PrefixIndex::kNone);
  const int32_t again = index.insert(a, Tokens{3, 4}, "");
  EXPECT_EQ(index.find(again, Tokens{5, 6}, ""), PrefixIndex::kNone);
  index.hold(again);
  index.drop(c);
  EXPECT_EQ(index.num_nodes(), 2);  // a and the new one
}

TEST_F(PrefixIndexTest, says_when_there_is_no_room) {
  int32_t parent = PrefixIndex::kRoot, made = 0;
  for (;; made++) {
    const int32_t node = index.insert(parent, Tokens{made, made}, "");
    if (node == PrefixIndex::kNone) break;
    index.hold(node);
    parent = node;
  }
  EXPECT_EQ(made, index.num_nodes());
  EXPECT_GE(made, 8);
}

TEST_F(PrefixIndexTest, a_set_block_names_its_node) {
  const int32_t a = index.insert(PrefixIndex::kRoot, Tokens{1, 2}, "s");
  index.set_block(a, 1, 5);
  EXPECT_EQ(index.node_of(5), a);
  EXPECT_EQ(index.block(a, 1), 5);
  EXPECT_EQ(index.block(a, 0), -1);
  EXPECT_EQ(index.salt(a), "s");
}

}  // namespace
}  // namespace pagoda
