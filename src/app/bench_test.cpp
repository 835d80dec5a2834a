#include "app/bench.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "app/roofline.h"
#include "base/error.h"
#include "model/shapes.h"

namespace pagoda {
namespace {

constexpr cpu::MachineLimits kMachine{
    .read_bytes_per_s = 1e6, .int8_ops_per_s = 1e9, .f32_ops_per_s = 1e8, .bf16_ops_per_s = 2e8};

// Two layers of a window of 16 among four.
ModelConfig tiny_config() {
  ModelConfig c = *shape_named("gemma3-270m");
  c.vocab_size = 96;
  c.hidden_size = 64;
  c.num_layers = 4;
  c.layers = {{.window = 16, .rope_index = 1}, {}, {.window = 16, .rope_index = 1}, {}};
  c.num_heads = 4;
  c.num_kv_heads = 2;
  c.head_dim = c.rotary_dim = 32;
  c.intermediate_size = 96;
  c.max_context = 512;
  c.validate();
  return c;
}

struct Bench : testing::Test {
  EngineSettings settings;
  BenchOptions options{
      .prompts = {40}, .generated = {6}, .depths = {0, 32}, .batches = {1, 3}, .repetitions = 2};
  Bench() {
    settings.device = "cpu";
    settings.threads = 1;
    settings.kv_cache_dtype = "bf16";
    settings.max_num_batched_tokens = 64;
    settings.load_format = LoadFormat::dummy;
  }
  std::unique_ptr<Deployment> deployment() {
    return std::make_unique<Deployment>(model_of_shape(tiny_config()),
                                        bench_settings(options, settings, tiny_config()),
                                        Deployment::Progress());
  }
  std::string refusal() {
    try {
      bench_settings(options, settings, tiny_config());
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), "usage.bench");
      return e.message();
    }
    return "";
  }
};

TEST_F(Bench, every_combination_has_a_row_with_a_rate_and_a_limit) {
  const auto model = deployment();
  int calls = 0;
  const auto rows = bench(*model, options, kMachine, [&](const BenchRow&) { calls++; });
  ASSERT_EQ(rows.size(), 6u);
  EXPECT_EQ(calls, 6);
  for (const BenchRow& row : rows) {
    EXPECT_GT(row.min, 0);
    EXPECT_LE(row.min, row.tokens_per_s);
    EXPECT_LE(row.tokens_per_s, row.max);
    EXPECT_GT(row.limit_tokens_per_s, 0);
    EXPECT_GT(row.cpu_s_per_token, 0);
  }
  EXPECT_EQ(rows[3].test, BenchTest::prefill);
  EXPECT_EQ(rows[3].depth, 32);
  EXPECT_EQ(rows[5].batch, 3);
}

TEST_F(Bench, the_depth_of_a_prefill_is_not_computed_again) {
  options = {.prompts = {40}, .generated = {0}, .depths = {32}, .batches = {1}, .repetitions = 1};
  const auto model = deployment();
  bench(*model, options, kMachine, [](const BenchRow&) {});
  // Twice 40 tokens; of the depth at most once all and then the last block again.
  const int64_t block = model->plan().kv_layout.block_size;
  EXPECT_LE(model->engine().stats().computed_tokens, 2 * 40 + 32 + block);
}

TEST_F(Bench, what_exceeds_the_context_is_refused_by_its_flags) {
  options.depths = {500};
  EXPECT_THAT(refusal(), testing::HasSubstr("-d 500 with -p 40 needs 541 tokens"));
  options.prompts = {0};
  EXPECT_THAT(refusal(), testing::HasSubstr("-d 500 with -n 6 and -b 3"));
}

TEST_F(Bench, a_given_context_that_is_too_short_is_named) {
  settings.max_model_len = 50;
  EXPECT_THAT(refusal(), testing::HasSubstr("--max-model-len is 50"));
}

TEST_F(Bench, a_depth_without_the_prefix_cache_is_refused) {
  settings.enable_prefix_caching = false;
  EXPECT_THAT(refusal(), testing::HasSubstr("--no-enable-prefix-caching"));
}

TEST_F(Bench, json_says_what_bounds_a_row) {
  const BenchRow row{.tokens_per_s = 50, .limit_tokens_per_s = 200, .is_memory_bound = true};
  const auto json = nlohmann::json::parse(bench_json("m", {.load = 2}, {row}));
  EXPECT_EQ(json["rows"][0]["bound"], "memory");
  EXPECT_EQ(json["rows"][0]["fraction_of_limit"], 0.25);
  EXPECT_EQ(json["machine"]["is_busy"], true);
}

struct Roofline : Bench {
  std::unique_ptr<Deployment> model = deployment();
  StepCost cost{model->model(), model->plan().kv_layout};
  // q, k, v, o and gate, up, down of four layers; the tied head of 96 rows.
  static constexpr double kMatrixOps = 4 * 2.0 * 64 * (128 + 64 + 64 + 128 + 3 * 96);
  static constexpr double kHeadOps = 2.0 * 64 * 96;
  // 4 operations for each head, dimension and key.
  static constexpr double kPairOps = 4.0 * 4 * 32;
  static constexpr double kTokenBytes = 2 * 2 * 2 * 32;  // K and V, 2 heads of 32, bf16
};

TEST_F(Roofline, a_decode_step_counts_matrices_head_and_visible_keys) {
  const StepWork one = cost.decode(1, 39);
  EXPECT_EQ(one.bf16_ops, kMatrixOps + kHeadOps + kPairOps * (2 * 40 + 2 * 16));
  EXPECT_EQ(one.int8_ops + one.f32_ops, 0);
}

TEST_F(Roofline, a_batch_shares_the_weights_and_not_the_keys) {
  const StepWork one = cost.decode(1, 39), three = cost.decode(3, 39);
  EXPECT_EQ(three.bf16_ops, 3 * one.bf16_ops);
  const double embedding_row = double(model->model().weights().embedding.data.size()) / 96;
  EXPECT_EQ(three.bytes - one.bytes, 2 * (kTokenBytes * (2 * 40 + 2 * 16) + embedding_row));
}

TEST_F(Roofline, a_prefill_reads_the_weights_once_a_step_and_needs_one_row_of_logits) {
  const StepWork whole = cost.prefill(40, 0, 64), halves = cost.prefill(40, 0, 20);
  EXPECT_EQ(whole.bf16_ops, halves.bf16_ops);
  const double pairs_full = 40 * 41 / 2, pairs_window = 16 * 17 / 2 + 24 * 16;
  EXPECT_EQ(whole.bf16_ops,
            40 * kMatrixOps + kHeadOps + kPairOps * (2 * pairs_full + 2 * pairs_window));
  EXPECT_GT(halves.bytes, 1.9 * double(model->plan().of(MemoryTag::weights)));
}

TEST_F(Roofline, the_longer_of_reading_and_computing_bounds) {
  const StepLimit memory = limit_of({.bytes = 2e6, .int8_ops = 1e9}, kMachine);
  EXPECT_EQ(memory.seconds, 2);
  EXPECT_TRUE(memory.is_memory_bound);
  const StepLimit compute = limit_of({.bytes = 1e6, .int8_ops = 1e9, .f32_ops = 1e8}, kMachine);
  EXPECT_EQ(compute.seconds, 2);
  EXPECT_FALSE(compute.is_memory_bound);
}

}  // namespace
}  // namespace pagoda
