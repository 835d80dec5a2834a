#include "backend/cuda/prefill_scratch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pagoda::cuda {
namespace {

std::vector<std::pair<int32_t, int32_t>> keys_of(const std::vector<ScratchBlock>& blocks,
                                                 int32_t seq) {
  std::vector<std::pair<int32_t, int32_t>> keys;
  for (const ScratchBlock& b : blocks)
    if (b.seq == seq) keys.emplace_back(b.first_key, b.num_keys);
  return keys;
}
using Keys = std::vector<std::pair<int32_t, int32_t>>;

TEST(PrefillScratch, every_key_of_a_sequence_has_a_place) {
  const std::vector<int32_t> cu = {0, 300, 310}, kv = {300, 130};
  const std::vector<ScratchBlock> blocks = plan_prefill_scratch({.cu_q_lens = cu, .kv_lens = kv});
  EXPECT_EQ(keys_of(blocks, 0), (Keys{{0, 128}, {128, 128}, {256, 44}}));
  EXPECT_EQ(keys_of(blocks, 1), (Keys{{0, 128}, {128, 2}}));
}

TEST(PrefillScratch, keys_that_the_window_has_left_behind_have_none) {
  const std::vector<int32_t> cu = {0, 10}, kv = {1000};
  const std::vector<ScratchBlock> blocks =
      plan_prefill_scratch({.cu_q_lens = cu, .kv_lens = kv, .window = 100});
  EXPECT_EQ(keys_of(blocks, 0), (Keys{{768, 128}, {896, 104}}));
  EXPECT_EQ(blocks[0].num_skipped, 891 - 768);
  EXPECT_EQ(blocks[1].num_skipped, 0);
}

TEST(PrefillScratch, only_sequences_with_rows_and_those_asked_for_are_copied) {
  const std::vector<int32_t> cu = {0, 5, 5, 10}, kv = {128, 128, 128}, seqs = {1, 2};
  const std::vector<ScratchBlock> blocks =
      plan_prefill_scratch({.cu_q_lens = cu, .kv_lens = kv, .seqs = seqs});
  EXPECT_EQ(blocks.size(), 1u);
  EXPECT_EQ(keys_of(blocks, 2), (Keys{{0, 128}}));
}

TEST(PrefillScratch, what_is_not_planned_is_written_as_nothing) {
  const PrefillScratchShape shape = {.max_blocks = 3};
  const std::vector<ScratchBlock> plan = {{7, 128, 5, 0}};
  std::vector<std::byte> out(shape.plan_bytes(), std::byte{0xFF});
  write_plan(plan, shape, out);
  const auto* blocks = reinterpret_cast<const ScratchBlock*>(out.data());
  EXPECT_EQ(blocks[0].seq, 7);
  EXPECT_EQ(blocks[1].num_keys, 0);
  EXPECT_EQ(blocks[2].num_keys, 0);
}

}  // namespace
}  // namespace pagoda::cuda
