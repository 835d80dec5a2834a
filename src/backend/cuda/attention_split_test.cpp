#include "backend/cuda/attention_split.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "base/checked.h"

namespace pagoda::cuda {
namespace {

struct Batch {
  std::vector<int32_t> cu_q_lens = {0}, kv_lens, sampling;
  std::vector<SharedPrefix> shared;
  void add(int32_t rows, int32_t keys, int32_t its_sampling) {
    cu_q_lens.push_back(cu_q_lens.back() + rows);
    kv_lens.push_back(keys);
    sampling.push_back(its_sampling);
  }
  AttentionPieces pieces() const { return split_rows({cu_q_lens, kv_lens, sampling, shared}); }
};

Batch random_batch(std::mt19937& random, int32_t max_seqs, int32_t max_context) {
  const auto below = [&](int32_t n) { return int32_t(random() % uint32_t(n)); };
  Batch b;
  const int32_t B = 1 + below(max_seqs);
  for (int32_t i = 0; i < B; i++) {
    const int32_t keys = below(4) == 0 ? below(3) : below(max_context);
    const int32_t rows = below(3) == 0 ? 1 : below(40);
    b.add(rows, keys, below(2) == 0 ? std::min(rows, 1) : below(rows + 1));
  }
  return b;
}

// Every row belongs to one piece, whose last row ends at the key that the batch says.
TEST(AttentionSplit, a_piece_is_rows_and_keys_of_its_sequence) {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; round++) {
    const Batch b = random_batch(random, 20, 3000);
    const AttentionPieces p = b.pieces();
    const std::set<int32_t> prompt(p.prompt.begin(), p.prompt.end());
    ASSERT_EQ(p.prompt.size() + p.sampling.size(), p.seqs.size());
    ASSERT_EQ(p.cu_q_lens.back(), b.cu_q_lens.back());
    for (size_t i = 0; i < p.seqs.size(); i++) {
      const int32_t s = p.seqs[i], begin = p.cu_q_lens[i], end = p.cu_q_lens[i + 1];
      ASSERT_LT(begin, end);
      ASSERT_GE(begin, b.cu_q_lens[s]);
      ASSERT_LE(end, b.cu_q_lens[s + 1]);
      ASSERT_EQ(p.kv_lens[i], std::max(0, b.kv_lens[s] - (b.cu_q_lens[s + 1] - end)));
      const int32_t first_sampling = b.cu_q_lens[s + 1] - b.sampling[s];
      if (prompt.count(int32_t(i)))
        ASSERT_EQ(end, first_sampling);
      else
        ASSERT_TRUE(begin >= first_sampling && end - begin <= kPieceRows);
    }
  }
}

TEST(AttentionSplit, without_sampling_rows_all_are_prompt) {
  Batch b;
  b.add(1, 5, 1);
  const AttentionPieces p = split_rows({b.cu_q_lens, b.kv_lens, {}, {}});
  EXPECT_EQ(p.prompt.size(), 1u);
  EXPECT_TRUE(p.sampling.empty());
  EXPECT_EQ(longest_sampling_piece(p), 0);
}

AttentionPlanInput input_of(const AttentionLimits& limits, int32_t columns) {
  AttentionPlanInput in;
  in.decode.kv_heads = limits.kv_heads;
  in.decode.group = limits.num_heads / limits.kv_heads;
  in.decode.columns = columns;
  in.decode.num_multiprocessors = limits.num_multiprocessors;
  in.prefill.tile_rows = 128;
  in.prefill.tile_keys = 128;
  in.capacity = decode_capacity(limits);
  return in;
}

TEST(AttentionSplit, every_launch_fits_what_was_reserved) {
  std::mt19937 random(11);
  for (int round = 0; round < 400; round++) {
    AttentionLimits limits = {.max_tokens = 1600,
                              .max_seqs = 40,
                              .max_context = 1 + int32_t(random() % 40000),
                              .num_heads = 1 << random() % 6,
                              .kv_heads = 1,
                              .head_dim = 128,
                              .prefill_knows_spans = random() % 2 == 0};
    limits.kv_heads = limits.num_heads >> random() % 3;
    if (limits.kv_heads == 0) limits.kv_heads = 1;
    Batch b = random_batch(random, limits.max_seqs, limits.max_context);
    const auto B = int32_t(b.kv_lens.size());
    const int32_t first = int32_t(random() % uint32_t(B));
    b.shared = {{first, B - first, int32_t(random() % 3000)}};
    for (int32_t s = first; s < B; s++)
      b.shared[0].num_keys = std::min(b.shared[0].num_keys, b.kv_lens[s]);
    const AttentionPieces pieces = b.pieces();
    AttentionPlanInput in = input_of(limits, 8 << random() % 3);
    in.decode.window = random() % 2 ? 0 : 500;
    if (random() % 3 == 0) in.decode.group = limits.num_heads, in.decode.kv_heads = 1;
    if (random() % 2) in.scratch_blocks = (limits.max_context + 127) / 128;
    const PrefillPlanShape capacity = prefill_capacity(limits);
    in.prefill.max_parts = capacity.max_parts;
    if (limits.prefill_knows_spans) in.prefill.span_tiles = kSpanKeys / in.prefill.tile_keys;
    const AttentionPlan plan = plan_attention(pieces, in);
    std::map<int32_t, int> rows;  // token: times that it is answered
    for (const DecodePlan& d : plan.decode) {
      const DecodePlanShape shape = shape_of(d);
      ASSERT_LE(shape.num_bytes(), in.capacity.num_bytes());
      ASSERT_LE(shape.max_parts, in.capacity.max_parts);
      for (const DecodeRow& row : d.rows) rows[row.token]++;
      for (const DecodeItem& item : d.items) {
        const int32_t s = item.table_row, keys = b.kv_lens[s];
        ASSERT_EQ(item.fresh, std::max(0, keys - (b.cu_q_lens[s + 1] - b.cu_q_lens[s])));
        ASSERT_LE(item.key_end, keys);
      }
    }
    std::map<int32_t, int32_t> copied;  // sequence: keys that the launch finds copied
    for (const PrefillPart& part : plan.prefill) {
      if (!part.reads_last_copy) copied.clear();
      for (const ScratchBlock& block : part.copied) copied[block.seq] += block.num_keys;
      ASSERT_LE(int32_t(part.copied.size()), in.scratch_blocks);
      for (const PrefillTile& tile : part.plan.tiles) {
        ASSERT_GE(tile.row, b.cu_q_lens[tile.seq]);
        if (tile.tile_begin == 0)  // the first span, if there are several
          for (int32_t r = 0; r < tile.num_rows; r++) rows[tile.row + r]++;
        ASSERT_EQ(copied[tile.seq], in.scratch_blocks > 0 ? tile.kv_len : 0);
      }
      ASSERT_LE(part.plan.header.num_tiles, capacity.max_tiles);
      ASSERT_LE(part.plan.header.num_merges, capacity.max_merges);
      ASSERT_LE(part.plan.header.num_parts, capacity.max_parts);
    }
    ASSERT_EQ(int32_t(rows.size()), b.cu_q_lens.back());
    for (const auto& [token, times] : rows) ASSERT_EQ(times, 1) << token;
  }
}

TEST(AttentionSplit, many_rows_over_many_keys_are_several_launches_over_one_copy) {
  Batch b;
  b.add(2000, 100000, 1);
  const AttentionLimits limits = {.max_tokens = 2048,
                                  .max_seqs = 4,
                                  .max_context = 131072,
                                  .num_heads = 32,
                                  .kv_heads = 8,
                                  .head_dim = 128,
                                  .prefill_knows_spans = true};
  const PrefillPlanShape capacity = prefill_capacity(limits);
  EXPECT_LE(capacity.workspace_bytes(32, 128), 130 << 20);
  AttentionPlanInput in = input_of(limits, 8);
  in.scratch_blocks = 1024;
  in.prefill.span_tiles = 64;
  in.prefill.max_parts = capacity.max_parts;
  const AttentionPlan plan = plan_attention(b.pieces(), in);
  ASSERT_EQ(plan.prefill.size(), 4u);
  for (size_t i = 0; i < plan.prefill.size(); i++) {
    EXPECT_EQ(plan.prefill[i].reads_last_copy, i > 0);
    EXPECT_EQ(plan.prefill[i].copied.size(), i > 0 ? 0u : 782u);
  }
}

TEST(AttentionSplit, a_row_tile_over_every_key_has_room) {
  for (const int32_t context : {20480, 20481, 32768, 131072, 1 << 20})
    for (const int32_t tokens : {1, 100, 8192}) {
      const AttentionLimits limits = {.max_tokens = tokens,
                                      .max_seqs = 4,
                                      .max_context = context,
                                      .num_heads = 128,
                                      .kv_heads = 8,
                                      .head_dim = 256,
                                      .prefill_knows_spans = true};
      Batch b;
      b.add(std::min(tokens, 4000), context, 0);
      AttentionPlanInput in = input_of(limits, 8);
      in.prefill.tile_keys = 96;
      in.prefill.span_tiles = kSpanKeys / 96;
      in.prefill.max_parts = prefill_capacity(limits).max_parts;
      const AttentionPlan plan = plan_attention(b.pieces(), in);
      EXPECT_EQ(plan.prefill[0].plan.merges.empty(), context <= kWholeKeys);
    }
}

TEST(AttentionSplit, shared_keys_are_one_item_of_all_rows) {
  Batch b;
  for (const int32_t rows : {1, 5, 1, 1}) b.add(rows, 3000, 1);
  b.shared = {{1, 3, 2900}};
  const AttentionPieces pieces = b.pieces();
  ASSERT_EQ(pieces.shared.size(), 1u);
  EXPECT_EQ(pieces.shared[0].first_seq, 1);
  EXPECT_EQ(pieces.shared[0].num_seqs, 3);
  const AttentionLimits limits = {
      .max_tokens = 64, .max_seqs = 4, .max_context = 4096, .num_heads = 2, .kv_heads = 1};
  const AttentionPlan plan = plan_attention(pieces, input_of(limits, 8));
  ASSERT_EQ(plan.decode.size(), 1u);
  int32_t shared_items = 0;
  for (const DecodeItem& item : plan.decode[0].items) {
    EXPECT_EQ(item.fresh, item.table_row == 1 ? 2995 : 2999);
    shared_items += item.num_rows == 3;
  }
  EXPECT_EQ(shared_items, 2900 / kChunk);
}

TEST(AttentionSplit, many_rows_side_by_side_pay_where_sections_are_shared) {
  const auto pays = [](int32_t seqs, int32_t shared, int32_t own) {
    Batch b;
    b.add(1, 500, 1);
    for (int32_t i = 0; i < seqs; i++) b.add(1, shared + own, 1);
    b.shared = {{1, seqs, shared}};
    const AttentionPieces pieces = b.pieces();
    EXPECT_EQ(most_rows_that_share(pieces), seqs);
    return sharing_pays(pieces, 2, 8);
  };
  EXPECT_TRUE(pays(64, 8192, 1024));
  EXPECT_TRUE(pays(64, 2048, 6144));
  EXPECT_FALSE(pays(64, 2047, 500));  // no whole section
  EXPECT_FALSE(pays(64, 2048, 60000));
  EXPECT_FALSE(pays(2, 8192, 1024));
  EXPECT_FALSE(sharing_pays(Batch().pieces(), 2, 8));
}

TEST(AttentionSplit, keys_of_this_step_are_not_shared) {
  Batch b;
  b.add(1, 600, 1);
  b.add(40, 600, 1);
  b.shared = {{0, 2, 590}};
  EXPECT_EQ(b.pieces().shared[0].num_keys, 560);
}

TEST(AttentionSplit, positions_are_those_of_the_whole_batch) {
  Batch b;
  b.add(20, 100, 11);
  b.add(3, 50, 0);
  b.add(1, 7, 1);
  const AttentionLimits limits = {
      .max_tokens = 64, .max_seqs = 4, .max_context = 256, .num_heads = 8, .kv_heads = 2};
  const AttentionPlan plan = plan_attention(b.pieces(), input_of(limits, 8));
  std::map<int32_t, int32_t> positions;
  for (const DecodePlan& d : plan.decode)
    for (const DecodeRow& row : d.rows) positions[row.token] = row.position;
  EXPECT_EQ(positions.size(), 12u);
  for (int32_t t = 9; t < 20; t++) EXPECT_EQ(positions[t], 80 + t);
  EXPECT_EQ(positions[23], 6);
}

}  // namespace
}  // namespace pagoda::cuda
