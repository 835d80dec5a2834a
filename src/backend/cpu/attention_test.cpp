#include <gmock/gmock.h>

#include <cstring>

#include "backend/cpu/attention_fixture.h"

namespace pagoda::cpu {
namespace {

const KvDType kDTypes[] = {KvDType::f32, KvDType::f16, KvDType::bf16, KvDType::int8, KvDType::int4};

// One per set of kernels.
std::vector<IsaLevel> kernel_levels() {
  std::vector<IsaLevel> levels;
  for (IsaLevel level : supported_isas())
    if (level == IsaLevel::v3 || level == IsaLevel::v4 || level == IsaLevel::v4_bf16)
      levels.push_back(level);
  return levels;
}

// Relative error of a row: q and p are rounded to bf16 where vdpbf16ps multiplies.
double tolerance(IsaLevel level, KvDType dtype) {
  const bool dots = level == IsaLevel::v4_bf16 && dtype != KvDType::f32 && dtype != KvDType::f16;
  return dots ? 1.5e-2 : 2e-5;
}

std::string words(IsaLevel level, const AttentionShape& s) {
  return fmt::format("{} {} D {} G {} S {} window {} softcap {}",
                     name(level),
                     name(s.dtype),
                     s.dim,
                     s.group,
                     s.block_size,
                     s.window,
                     s.softcap);
}

// The errors of the rows where chunks and pages begin and end, of the first and the last head.
void expect_close(IsaLevel level, AttentionFixture& f, int32_t id) {
  for (int32_t position : {0, 1, 14, 15, 16, 254, 255, 256, 257, 511, 512, f.lengths[id] - 1})
    for (int32_t head : {0, f.heads() - 1}) {
      if (position >= f.lengths[id]) continue;
      EXPECT_LT(f.error(id, position, head), tolerance(level, f.shape.dtype))
          << words(level, f.shape) << " position " << position << " head " << head;
    }
}

TEST(Attention, equals_float64_over_the_stored_values_for_every_format_and_head_size) {
  for (IsaLevel level : kernel_levels())
    for (KvDType dtype : kDTypes)
      for (int32_t dim : {16, 64, 80, 96, 128, 192, 208, 256}) {
        AttentionFixture f(level, 2, {.dtype = dtype, .dim = dim, .group = 2}, {300});
        f.store(0);
        f.attend({{0, 0, 300}});
        expect_close(level, f, 0);
      }
}

TEST(Attention, equals_float64_for_any_group_of_heads_and_block_size) {
  const int32_t kGroups[] = {1, 2, 3, 4, 5, 7, 8, 9, 13, 32, 128};
  for (IsaLevel level : kernel_levels())
    for (int32_t group : kGroups)
      for (int32_t block_size : {16, 32, 48, 64, 128}) {
        if (group > 8 && block_size != 64) continue;
        const KvDType dtype = kDTypes[(group + block_size / 16) % 5];
        AttentionFixture f(
            level,
            2,
            {.dtype = dtype, .kv_heads = 1, .group = group, .block_size = block_size},
            {270});
        f.store(0);
        f.attend({{0, 0, 200}});
        f.attend({{0, 200, 269}});
        f.attend({{0, 269, 270}});
        expect_close(level, f, 0);
      }
}

TEST(Attention, equals_float64_at_every_length_around_pages_and_chunks) {
  for (IsaLevel level : kernel_levels())
    for (KvDType dtype : kDTypes)
      for (int32_t length : {1, 15, 16, 17, 255, 256, 257, 600, 1500}) {
        AttentionFixture f(level, 2, {.dtype = dtype, .kv_heads = 1}, {length});
        f.store(0);
        f.attend({{0, 0, length}});
        for (int32_t head : {0, 2})
          EXPECT_LT(f.error(0, length - 1, head), tolerance(level, dtype))
              << words(level, f.shape) << " length " << length;
      }
}

TEST(Attention, equals_float64_with_windows_softcaps_and_sinks) {
  for (IsaLevel level : kernel_levels())
    for (KvDType dtype : kDTypes)
      for (int32_t window : {0, 1, 17, 255, 256, 300})
        for (float softcap : {0.f, 3.f}) {
          AttentionFixture f(level,
                             2,
                             {.dtype = dtype,
                              .kv_heads = 1,
                              .window = window,
                              .softcap = softcap,
                              .has_sinks = softcap > 0},
                             {700});
          f.store(0);
          f.attend({{0, 0, 400}});
          f.attend({{0, 400, 699}});
          f.attend({{0, 699, 700}});
          expect_close(level, f, 0);
        }
}

TEST(Attention, naive_equals_float64) {
  for (IsaLevel level : kernel_levels())
    for (KvDType dtype : kDTypes)
      for (int32_t window : {0, 100}) {
        AttentionFixture f(level,
                           2,
                           {.dtype = dtype,
                            .dim = 80,
                            .window = window,
                            .softcap = window ? 5.f : 0.f,
                            .has_sinks = window > 0,
                            .algorithm = AttentionAlgorithm::naive},
                           {520});
        f.store(0);
        f.attend({{0, 0, 500}});
        f.attend({{0, 500, 520}});
        for (int32_t position : {0, 15, 16, 255, 256, 512, 519})
          EXPECT_LT(f.error(0, position, 5), 2e-5) << words(level, f.shape);
      }
}

TEST(Attention, needs_no_more_scratch_than_the_longest_context_was_reserved_for) {
  for (AttentionAlgorithm algorithm : {AttentionAlgorithm::naive, AttentionAlgorithm::flash})
    for (int threads : {1, 2, 5})
      for (int32_t length : {512, 513}) {
        AttentionFixture f(
            detected_isa(), threads, {.kv_heads = 1, .algorithm = algorithm}, {length});
        f.store(0);
        f.attend({{0, length - 1, length}});
        EXPECT_LT(f.error(0, length - 1, 0), tolerance(detected_isa(), f.shape.dtype));
      }
}

TEST(Attention, gives_the_log_sum_exp_of_each_row) {
  for (IsaLevel level : kernel_levels())
    for (bool has_sinks : {false, true}) {
      AttentionFixture f(level, 2, {.dtype = KvDType::bf16, .has_sinks = has_sinks}, {400});
      f.store(0);
      f.attend({{0, 0, 400}});
      for (int32_t position : {0, 300, 399})
        EXPECT_NEAR(
            f.lse[0][position * f.heads() + 4], f.expected(0, position, 4).log_sum_exp, 1e-2);
    }
}

TEST(Attention, keeps_its_senses_with_huge_scores) {
  for (IsaLevel level : kernel_levels())
    for (KvDType dtype : kDTypes) {
      AttentionFixture f(level, 2, {.dtype = dtype, .q_size = 1e4f}, {600});
      f.store(0);
      f.attend({{0, 0, 600}});
      for (float x : f.out[0]) ASSERT_TRUE(std::isfinite(x)) << words(level, f.shape);
    }
}

TEST(Attention, a_sequence_without_new_tokens_changes_nothing) {
  for (IsaLevel level : kernel_levels()) {
    AttentionFixture f(level, 2, {}, {40, 50});
    f.store(0);
    f.store(1);
    f.attend({{0, 40, 40}, {1, 0, 50}, {0, 0, 0}});
    expect_close(level, f, 1);
    f.attend({{0, 7, 7}});
  }
}

TEST(Attention, a_row_before_the_first_position_gives_zero) {
  AttentionFixture f(detected_isa(), 2, {}, {4});
  std::vector<int32_t> bounds{0, 3}, kv_lens{1};
  f.store(0);
  std::vector<float> out(3 * f.heads() * f.shape.dim, NAN), lse(3 * f.heads(), NAN);
  const AttentionBatch batch{.cu_q_lens = bounds,
                             .kv_lens = kv_lens,
                             .block_table = f.tables,
                             .max_blocks = f.max_blocks,
                             .host_cu_q_lens = bounds,
                             .host_kv_lens = kv_lens};
  const int64_t cols = f.heads() * f.shape.dim;
  f.backend->attention(
      {.q = {reinterpret_cast<std::byte*>(f.q[0].data()), DType::f32, {3, cols}},
       .kv = f.kv,
       .batch = batch,
       .num_heads = f.heads(),
       .scale = 1.f,
       .out = {reinterpret_cast<std::byte*>(out.data()), DType::f32, {3, cols}},
       .log_sum_exp = {reinterpret_cast<std::byte*>(lse.data()), DType::f32, {3, f.heads()}}});
  for (int64_t i = 0; i < 2 * cols; i++) ASSERT_EQ(out[i], 0.f);
  EXPECT_EQ(lse[f.heads()], -INFINITY);
  for (int64_t i = 2 * cols; i < 3 * cols; i++) ASSERT_TRUE(std::isfinite(out[i]));
  EXPECT_TRUE(std::isfinite(lse[2 * f.heads()]));
}

// ---- the same bits, however the call is cut
// ---------------------------------------------------------

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

struct BitCase {
  IsaLevel level;
  AttentionShape shape;
};
std::vector<BitCase> bit_cases() {
  std::vector<BitCase> cases;
  for (IsaLevel level : kernel_levels())
    for (KvDType dtype : kDTypes) {
      cases.push_back({level, {.dtype = dtype, .group = 3}});
      cases.push_back({level,
                       {.dtype = dtype,
                        .dim = 80,
                        .kv_heads = 1,
                        .group = 8,
                        .window = 300,
                        .softcap = 20.f,
                        .has_sinks = true}});
    }
  return cases;
}

constexpr int32_t kTokens = 601;

// `want`: the sequence alone, in one call of one thread.
class AttentionBits : public testing::Test {
 public:
  static void SetUpTestSuite() {
    for (const BitCase& c : bit_cases()) {
      AttentionFixture f(c.level, 1, c.shape, {kTokens});
      f.store(0);
      f.attend({{0, 0, kTokens}});
      cases.push_back({c, f.out[0]});
    }
  }
  static void TearDownTestSuite() { cases.clear(); }

  static inline std::vector<std::pair<BitCase, std::vector<float>>> cases;
};

TEST_F(AttentionBits, do_not_depend_on_the_tokens_per_call) {
  for (const auto& [c, want] : cases) {
    AttentionFixture f(c.level, 2, c.shape, {kTokens});
    f.store(0);
    for (int32_t step : {1, 7, 64}) {
      std::fill(f.out[0].begin(), f.out[0].end(), NAN);
      f.attend_in_steps(0, step);
      EXPECT_TRUE(same_bits(f.out[0], want)) << words(c.level, c.shape) << " step " << step;
    }
  }
}

TEST_F(AttentionBits, do_not_depend_on_the_number_of_threads) {
  for (const auto& [c, want] : cases) {
    for (int threads : {2, 3}) {
      AttentionFixture f(c.level, threads, c.shape, {kTokens});
      f.store(0);
      f.attend({{0, 0, kTokens}});
      f.attend({{0, kTokens - 1, kTokens}});
      f.attend({{0, 530, 536}});
      EXPECT_TRUE(same_bits(f.out[0], want)) << words(c.level, c.shape) << " threads " << threads;
    }
  }
}

TEST_F(AttentionBits, do_not_depend_on_who_shares_the_call) {
  for (const auto& [c, want] : cases) {
    AttentionFixture f(c.level, 2, c.shape, {kTokens, 1, 333, 1100});
    for (int32_t id : {0, 1, 2, 3}) f.store(id);
    f.attend({{3, 900, 1100}, {0, 0, 500}, {1, 0, 1}, {2, 332, 333}});
    f.attend({{2, 0, 333}, {3, 1099, 1100}, {0, 500, 600}});
    f.attend({{0, 600, 601}, {1, 0, 1}, {2, 332, 333}, {3, 1099, 1100}});
    EXPECT_TRUE(same_bits(f.out[0], want)) << words(c.level, c.shape);
  }
}

TEST_F(AttentionBits, do_not_depend_on_blocks) {
  for (const auto& [c, want] : cases) {
    for (int32_t block_size : {16, 80, 128}) {
      AttentionShape shape = c.shape;
      shape.block_size = block_size;
      AttentionFixture f(c.level, 2, shape, {kTokens}, 99);
      f.store(0);
      f.attend({{0, 0, kTokens}});
      EXPECT_TRUE(same_bits(f.out[0], want)) << words(c.level, shape);
    }
  }
}

TEST_F(AttentionBits, do_not_depend_on_how_tokens_were_stored) {
  for (const auto& [c, want] : cases) {
    AttentionFixture f(c.level, 3, c.shape, {kTokens});
    for (int32_t t = 0; t < kTokens; t += t < 400 ? 200 : 1)
      f.store({0, t, std::min(kTokens, t + (t < 400 ? 200 : 1))});
    f.attend({{0, 0, kTokens}});
    EXPECT_TRUE(same_bits(f.out[0], want)) << words(c.level, c.shape);
  }
}

TEST_F(AttentionBits, of_a_row_that_a_window_covers_equal_those_without_it) {
  for (IsaLevel level : kernel_levels())
    for (KvDType dtype : kDTypes) {
      AttentionFixture free(level, 2, {.dtype = dtype}, {500});
      AttentionFixture windowed(level, 2, {.dtype = dtype, .window = 500}, {500});
      free.store(0);
      windowed.store(0);
      free.attend({{0, 0, 500}});
      windowed.attend({{0, 0, 500}});
      EXPECT_TRUE(same_bits(free.out[0], windowed.out[0])) << words(level, free.shape);
    }
}

}  // namespace
}  // namespace pagoda::cpu
