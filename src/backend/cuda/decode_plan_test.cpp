#include "backend/cuda/decode_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <unordered_set>

#include "base/checked.h"
#include "base/random.h"

namespace pagoda::cuda {
namespace {

struct Batch {
  std::vector<int32_t> cu_q_lens = {0}, kv_lens;
  std::vector<SharedPrefix> shared;
  DecodePlanInput input;

  void add(int32_t q_len, int32_t kv_len) {
    cu_q_lens.push_back(cu_q_lens.back() + q_len);
    kv_lens.push_back(kv_len);
  }
  DecodePlanInput& done() {
    input.cu_q_lens = cu_q_lens, input.kv_lens = kv_lens, input.shared = shared;
    return input;
  }
  int64_t keys() const { return std::accumulate(kv_lens.begin(), kv_lens.end(), int64_t{0}); }
};

class Dice {
 public:
  explicit Dice(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15ULL + 1) {}
  int32_t below(int32_t n) {
    state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<int32_t>((state_ >> 33) % static_cast<uint64_t>(n));
  }

 private:
  uint64_t state_;
};

Batch random_batch(Dice& dice, bool with_shared) {
  Batch b;
  const int32_t B = 1 + dice.below(dice.below(10) == 0 ? 150 : 10);
  const int32_t most = dice.below(3) == 0 ? 60000 : 3000;
  int32_t prefix = 0;
  if (with_shared && B > 1) {
    prefix = 16 * dice.below(most / 8);
    b.shared.push_back({0, 1 + dice.below(B), prefix});
  }
  for (int32_t i = 0; i < B; i++) {
    const int32_t q_len = 1 + (dice.below(2) ? dice.below(8) : 0);
    const bool in_group = !b.shared.empty() && i < b.shared[0].num_seqs;
    const int32_t extra = dice.below(20) == 0 ? 0 : dice.below(most);
    b.add(q_len, in_group ? prefix + q_len + extra : dice.below(30) == 0 ? 0 : q_len + extra);
  }
  b.input.kv_heads = 1 << dice.below(4);
  b.input.group = 1 + dice.below(dice.below(8) == 0 ? 128 : 8);
  b.input.window = with_shared || dice.below(2) ? 0 : 1 + dice.below(5000);
  b.input.columns = 8 << dice.below(3);
  b.input.parts = static_cast<DecodeParts>(std::max(0, dice.below(6) - 3));
  b.input.full_grid = dice.below(2) * 264;
  return b;
}

int32_t part_keys(const DecodePlan& plan) {
  return plan.header.chunks_per_part * kChunk;
}

// Keys that an item brings to each of its rows: [begin, end).
std::pair<int32_t, int32_t> keys_of(const DecodePlan& plan, const DecodeItem& item) {
  return {std::max(item.key_begin, item.part * part_keys(plan)),
          std::min(item.key_end, (item.part + item.num_parts) * part_keys(plan))};
}

TEST(DecodePlan, every_row_and_head_meets_each_of_its_keys_once_over_random_batches) {
  Dice dice(1);
  for (int round = 0; round < 3000; round++) {
    Batch batch = random_batch(dice, round % 3 == 0);
    const DecodePlanInput& in = batch.done();
    const DecodePlan plan = plan_decode(in);
    std::vector<int64_t> seen(plan.rows.size() * in.group);  // [rows, G]: keys it sees
    std::unordered_set<int64_t> parts;                       // (row, head, part)
    for (const DecodeItem& item : plan.items) {
      const auto [begin, end] = keys_of(plan, item);
      const int32_t first = item.first_head, count = item.num_heads;
      ASSERT_LE(item.num_rows * count, in.columns);
      for (int32_t r = item.first_row; r < item.first_row + item.num_rows; r++)
        for (int32_t g = first; g < first + count; g++) {
          const DecodeRow& row = plan.rows[r];
          ASSERT_TRUE(parts.insert((int64_t{r} * in.group + g) << 32 | item.part).second);
          ASSERT_GE(item.part, row.first_part);
          ASSERT_LT(item.part, row.first_part + row.num_parts);
          seen[r * in.group + g] +=
              std::max(0, std::min(end, row.position + 1) - std::max(begin, row.first_key));
        }
    }
    for (int32_t r = 0; r < static_cast<int32_t>(plan.rows.size()); r++)
      for (int32_t g = 0; g < in.group; g++) {
        const DecodeRow& row = plan.rows[r];
        const int32_t all = std::max(0, row.position + 1 - row.first_key);
        ASSERT_EQ(seen[r * in.group + g], all) << "round " << round << " row " << r;
      }
    // Every part of a row comes from exactly one item, so no partial is left unwritten.
    int64_t expected = 0;
    for (const DecodeRow& row : plan.rows) expected += int64_t{row.num_parts} * in.group;
    ASSERT_EQ(static_cast<int64_t>(parts.size()), expected);
  }
}

TEST(DecodePlan, no_block_has_more_than_the_mean_and_one_item) {
  Dice dice(2);
  for (int round = 0; round < 2000; round++) {
    Batch batch = random_batch(dice, round % 3 == 0);
    const DecodePlan plan = plan_decode(batch.done());
    const int32_t KH = batch.input.kv_heads;
    for (int32_t grid : {132, 264}) {
      std::vector<int64_t> load(grid);
      int64_t total = 0, longest = 0;
      for (size_t work = 0; work < plan.items.size() * KH; work++) {
        const auto [begin, end] = keys_of(plan, plan.items[work / KH]);
        const int64_t chunks = begin < end ? (end - 1) / kChunk - begin / kChunk + 1 : 0;
        load[work % grid] += chunks, total += chunks, longest = std::max(longest, chunks);
      }
      const double mean = double(total) / grid;
      EXPECT_LE(*std::max_element(load.begin(), load.end()), 1.05 * mean + double(longest));
    }
  }
}

TEST(DecodePlan, partials_of_different_rows_never_meet) {
  Dice dice(3);
  for (int round = 0; round < 500; round++) {
    Batch batch = random_batch(dice, round % 2 == 0);
    const DecodePlan plan = plan_decode(batch.done());
    std::set<int32_t> used;
    for (const DecodeRow& row : plan.rows)
      for (int32_t p = row.first_part; row.num_parts > 1 && p < row.first_part + row.num_parts;
           p++) {
        EXPECT_TRUE(used.insert(row.part_offset + p).second);
        EXPECT_LT(row.part_offset + p, plan.header.num_parts);
      }
  }
}

TEST(DecodePlan, every_batch_of_a_shape_fits_its_arrays) {
  Dice dice(4);
  for (int round = 0; round < 2000; round++) {
    Batch batch = random_batch(dice, round % 3 == 0);
    const DecodePlanInput& in = batch.done();
    int32_t most = 1;
    for (size_t b = 0; b < batch.kv_lens.size(); b++)
      most = std::max(most, batch.cu_q_lens[b + 1] - batch.cu_q_lens[b]);
    const DecodePlanShape shape =
        decode_plan_shape(in, static_cast<int32_t>(batch.kv_lens.size()), most, batch.keys());
    std::vector<std::byte> bytes(shape.num_bytes(), std::byte{0xFF});
    write_plan(plan_decode(in), shape, bytes);  // checks itself
    EXPECT_TRUE(std::equal(bytes.end() - 8, bytes.end(), bytes.end() - 8));
  }
}

TEST(DecodePlan, writing_leaves_nothing_of_the_step_before) {
  Batch big, small;
  for (int i = 0; i < 9; i++) big.add(2, 9000);
  small.add(1, 5);
  const DecodePlanShape shape = decode_plan_shape(big.done(), 9, 2, big.keys());
  std::vector<std::byte> fresh(shape.num_bytes()), reused(shape.num_bytes());
  write_plan(plan_decode(big.input), shape, reused);
  write_plan(plan_decode(small.done()), shape, reused);
  write_plan(plan_decode(small.input), shape, fresh);
  EXPECT_EQ(fresh, reused);
}

// 64 sequences that share 8k keys, each with 1k of its own.
Batch sharing_8k() {
  Batch batch;
  for (int i = 0; i < 64; i++) batch.add(1, 8192 + 1024);
  batch.shared = {{0, 64, 8192}};
  batch.input.kv_heads = 8, batch.input.group = 4, batch.input.columns = 32;
  return batch;
}

TEST(DecodePlan, a_shared_prefix_is_read_once) {
  Batch batch = sharing_8k();
  const DecodePlan plan = plan_decode(batch.done());
  int64_t keys = 0;
  for (const DecodeItem& item : plan.items) {
    const auto [begin, end] = keys_of(plan, item);
    keys += end - begin;
  }
  EXPECT_EQ(keys, 64 * 1024 + 8192 * (64 * 4 / 32));  // the prefix once per 32 columns
}

TEST(DecodePlan, half_of_the_blocks_begin_with_keys_of_their_own) {
  Batch batch = sharing_8k();
  const DecodePlan as_dealt = plan_decode(batch.done());
  batch.input.full_grid = 264;  // 33 items at once
  const DecodePlan plan = plan_decode(batch.input);
  ASSERT_EQ(plan.items.size(), 32u + 64);  // shared by 8 rows, and of one row
  const auto rows = [](const DecodePlan& p, int i) { return int{p.items[i].num_rows}; };
  for (int i = 0; i < 33; i++) {
    EXPECT_EQ(rows(plan, i), i < 16 ? 8 : 1) << i;
    EXPECT_EQ(rows(plan, i) + rows(plan, i + 33), rows(as_dealt, i) + rows(as_dealt, i + 33)) << i;
  }
  batch.input.kv_heads = 16;  // 16.5 items at once: as dealt
  EXPECT_EQ(rows(plan_decode(batch.input), 16), 8);
}

TEST(DecodePlan, whole_rows_that_balance_leave_nothing_to_merge) {
  Batch batch;
  for (int i = 0; i < 64; i++) batch.add(1, 16384);
  batch.input.kv_heads = 8, batch.input.group = 4, batch.input.full_grid = 264;
  EXPECT_EQ(plan_decode(batch.done()).header.num_parts, 0);
  batch.kv_lens[3] = 90000;
  EXPECT_GT(plan_decode(batch.done()).header.num_parts, 0);
}

TEST(DecodePlan, a_sequence_without_keys_has_one_item_that_reads_nothing) {
  Batch batch;
  batch.add(1, 0);
  const DecodePlan plan = plan_decode(batch.done());
  ASSERT_EQ(plan.items.size(), 1u);
  EXPECT_EQ(plan.items[0].key_end, 0);
  EXPECT_EQ(plan.rows[0].num_parts, 1);
}

TEST(DecodePlan, the_order_of_neighbours_does_not_move_a_rows_parts) {
  Batch alone, crowd;
  alone.add(1, 5000);
  alone.input.num_multiprocessors = crowd.input.num_multiprocessors = 1;  // sections in both
  crowd.add(1, 90000);
  crowd.add(1, 5000);
  const DecodeRow a = plan_decode(alone.done()).rows[0], b = plan_decode(crowd.done()).rows[1];
  EXPECT_EQ(a.first_part, b.first_part);
  EXPECT_EQ(a.num_parts, b.num_parts);
}

TEST(DecodePlan, shared_keys_that_are_no_whole_part_leave_whole_rows_alone) {
  Batch b;
  for (int i = 0; i < 64; i++) b.add(1, 4096);
  b.input.full_grid = 264;
  const size_t items = plan_decode(b.done()).items.size();
  const SharedPrefix few[] = {{0, 64, 256}}, many[] = {{0, 64, 2048}};
  DecodePlanInput input = b.done();
  input.shared = few;
  EXPECT_EQ(plan_decode(input).items.size(), items);
  input.shared = many;
  EXPECT_NE(plan_decode(input).items.size(), items);
}

TEST(DecodeConfig, fits_the_chip_for_every_instance) {
  for (int32_t chip : {228 << 10, 164 << 10, 100 << 10})  // sm_90, sm_80, sm_86 and sm_89
    for (int32_t slot : {4096, 8192 + 256, 9216, 16384, 32768})
      for (int32_t fixed : {3072, 8192, 40960})
        for (int32_t most : {1, 2, 3})
          for (int32_t work : {1, 100, 132, 133, 264, 5000}) {
            const int32_t min_slots = slot == 16384 ? 4 : 2, beside = work == 133 ? 4096 : 0;
            if (min_slots * slot + fixed + 1024 + beside > chip) continue;
            const DecodeConfig c = decode_config(
                {fixed, slot, most, 132, chip, 80 << 10, work % 2 == 0, work, beside, min_slots});
            EXPECT_GE(c.num_slots, min_slots);
            EXPECT_LE(c.num_flying, c.num_slots);
            EXPECT_LE((c.shared_bytes + 1024) * c.blocks_per_multiprocessor, chip);
            EXPECT_GE(c.shared_bytes, fixed + c.num_slots * slot);
            EXPECT_LE(c.shared_bytes, chip - 1024);
            EXPECT_LE(c.grid, work);
          }
}

}  // namespace
}  // namespace pagoda::cuda
