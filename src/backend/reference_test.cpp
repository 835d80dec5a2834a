// The reference against numbers that can be worked out by hand: everything else is held against it.
#include "backend/reference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "backend/reference_ops.h"

namespace pagoda {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TensorView view(std::vector<float>& values, int64_t rows) {
  return {reinterpret_cast<std::byte*>(values.data()),
          DType::f32,
          {rows, int64_t(values.size()) / rows}};
}

class Reference : public ::testing::Test {
 protected:
  std::unique_ptr<Backend> backend_ = make_reference_backend();

  // One KV head of 2 dims, one block of 16 tokens, block 0; f32.
  std::vector<float> memory_ = std::vector<float>(2 * 16 * 4);
  KvView cache_{.base = reinterpret_cast<std::byte*>(memory_.data()),
                .num_blocks = 2,
                .kv_heads = 1,
                .format = {KvDType::f32, 16, 2, 2}};
  void store(int64_t slot, std::vector<float> k, std::vector<float> v) {
    reference::store_kv(cache_, slot, 0, reference::KvPart::k, k);
    reference::store_kv(cache_, slot, 0, reference::KvPart::v, v);
  }
  // One query row at the end of `kv_len` keys of block 1.
  std::vector<float> attend(std::vector<float> q, int32_t kv_len, int32_t window) {
    std::vector<float> out(2), log_sum_exp(1);
    const int32_t cu[] = {0, 1}, lens[] = {kv_len}, table[] = {1};
    backend_->attention({.q = view(q, 1),
                         .kv = cache_,
                         .batch = {cu, lens, table, 1, cu, lens},
                         .num_heads = 1,
                         .scale = 1,
                         .window = window,
                         .out = view(out, 1),
                         .log_sum_exp = view(log_sum_exp, 1)});
    out.push_back(log_sum_exp[0]);
    return out;
  }
};

TEST_F(Reference, rms_norm_divides_by_the_root_mean_square) {
  std::vector<float> x = {3, 4, 0, 0, 0}, weight = {1, 2, 1, 1, 1}, out(5);
  backend_->norm({.epsilon = 0, .x = view(x, 1), .weight = view(weight, 1), .out = view(out, 1)});
  const float root = std::sqrt(5.f);  // mean square 25 / 5
  EXPECT_FLOAT_EQ(out[0], 3 / root);
  EXPECT_FLOAT_EQ(out[1], 8 / root);
}

TEST_F(Reference, layer_norm_has_mean_of_its_bias) {
  std::vector<float> x = {1, 3}, weight = {1, 1}, bias = {10, 10}, out(2);
  backend_->norm({.kind = NormKind::layer,
                  .epsilon = 0,
                  .x = view(x, 1),
                  .weight = view(weight, 1),
                  .bias = view(bias, 1),
                  .out = view(out, 1)});
  EXPECT_FLOAT_EQ(out[0], 9);
  EXPECT_FLOAT_EQ(out[1], 11);
}

TEST_F(Reference, the_sum_of_a_residual_is_kept) {
  std::vector<float> x = {1, 2}, add = {10, 20};
  backend_->norm({.x = view(x, 1), .add = view(add, 1)});
  EXPECT_EQ(x, (std::vector<float>{11, 22}));
}

TEST_F(Reference, linear_goes_bias_scale_softcap_residual) {
  std::vector<float> w = {1, 2}, x = {3, 4}, bias = {1}, residual = {100}, out(1);
  const Weight weight = backend_->pack(view(w, 1));
  const Weight* weights[] = {&weight};
  backend_->linear({.x = view(x, 1),
                    .weights = weights,
                    .bias = view(bias, 1),
                    .residual = view(residual, 1),
                    .out = view(out, 1),
                    .softcap = 5,
                    .scale = 0.5f});
  EXPECT_FLOAT_EQ(out[0], 100 + 5 * std::tanh(0.5f * 12 / 5));
}

TEST_F(Reference, gelu_and_silu_at_known_points) {
  std::vector<float> x = {0, 1, -1}, out(3);
  backend_->activation({.function = Activation::gelu_erf, .x = view(x, 1), .out = view(out, 1)});
  EXPECT_FLOAT_EQ(out[1], 0.84134475f);  // the normal distribution function at 1
  EXPECT_FLOAT_EQ(out[2], -0.15865525f);
  backend_->activation({.function = Activation::silu, .x = view(x, 1), .out = view(out, 1)});
  EXPECT_FLOAT_EQ(out[1], 1 / (1 + std::exp(-1.f)));
}

TEST_F(Reference, rotation_by_a_quarter_turn_swaps_a_pair) {
  std::vector<float> q = {1, 2, 3, 4}, k = {1, 2}, v = {0, 0}, angles = {0, 1};
  const int32_t slots[] = {-1};
  backend_->rope_store_kv(
      {.q = view(q, 1),
       .k = view(k, 1),
       .v = view(v, 1),
       .num_heads = 2,
       .style = RopeStyle::interleaved,
       .angles = {reinterpret_cast<std::byte*>(angles.data()), DType::f32, {1, 1, 2}},
       .slots = slots,
       .kv = cache_});
  EXPECT_EQ(q, (std::vector<float>{-2, 1, -4, 3}));
}

TEST_F(Reference, equal_scores_average_the_values) {
  store(16, {1, 0}, {2, 10});
  store(17, {1, 0}, {4, 30});
  const std::vector<float> out = attend({1, 5}, 2, 0);
  EXPECT_FLOAT_EQ(out[0], 3);
  EXPECT_FLOAT_EQ(out[1], 20);
  EXPECT_FLOAT_EQ(out[2], 1 + std::log(2.f));
}

TEST_F(Reference, a_window_hides_older_keys) {
  store(16, {1, 0}, {2, 10});
  store(17, {1, 0}, {4, 30});
  EXPECT_FLOAT_EQ(attend({1, 5}, 2, 1)[1], 30);
}

TEST_F(Reference, a_row_without_keys_is_zero) {
  EXPECT_EQ(attend({1, 5}, 0, 0), (std::vector<float>{0, 0, -kInfinity}));
}

TEST(E4m3, knows_the_values_of_the_paper) {
  EXPECT_EQ(reference::e4m3_to_f32(0x7e), 448.f);
  EXPECT_EQ(reference::e4m3_to_f32(0x08), 0x1p-6f);
  EXPECT_EQ(reference::e4m3_to_f32(0x01), 0x1p-9f);
  EXPECT_TRUE(std::isnan(reference::e4m3_to_f32(0xff)));
}

TEST(E4m3, gives_every_value_back) {
  for (int bits = 0; bits < 256; bits++) {
    if ((bits & 0x7f) == 0x7f) continue;  // NaN
    EXPECT_EQ(reference::f32_to_e4m3(reference::e4m3_to_f32(uint8_t(bits))), bits);
  }
}

TEST(E4m3, rounds_to_nearest_even_and_saturates) {
  EXPECT_EQ(reference::f32_to_e4m3(17), reference::f32_to_e4m3(16));  // 16, 18: 16 is even
  EXPECT_EQ(reference::f32_to_e4m3(19), reference::f32_to_e4m3(20));
  EXPECT_EQ(reference::f32_to_e4m3(1e6f), 0x7e);
  EXPECT_EQ(reference::f32_to_e4m3(-1e6f), 0xfe);
  EXPECT_EQ(reference::f32_to_e4m3(0x1p-11f), 0);
}

TEST(ReferenceKv, int4_hits_both_ends_of_its_range) {
  std::vector<std::byte> memory(4096);
  const KvView cache{memory.data(), 1, 1, {KvDType::int4, 16, 64, 64}};
  ASSERT_LE(cache.block_bytes(), int64_t(memory.size()));
  std::vector<float> values(64);
  for (int i = 0; i < 64; i++) values[i] = float(i % 16) * 0.5f - 2.f;
  reference::store_kv(cache, 5, 0, reference::KvPart::v, values);
  const std::vector<double> back = reference::load_kv(cache, 5, 0, reference::KvPart::v);
  for (int i = 0; i < 64; i++) EXPECT_EQ(back[i], double(values[i])) << i;
}

TEST(ReferenceKv, int8_is_within_half_a_step) {
  std::vector<std::byte> memory(8192);
  const KvView cache{memory.data(), 1, 1, {KvDType::int8, 32, 64, 64}};
  std::vector<float> values(64);
  for (int i = 0; i < 64; i++) values[i] = std::sin(float(i)) * 3;
  reference::store_kv(cache, 31, 0, reference::KvPart::k, values);
  const std::vector<double> back = reference::load_kv(cache, 31, 0, reference::KvPart::k);
  for (int i = 0; i < 64; i++) EXPECT_NEAR(back[i], double(values[i]), 3.0 / 127 * 0.51) << i;
}

}  // namespace
}  // namespace pagoda
