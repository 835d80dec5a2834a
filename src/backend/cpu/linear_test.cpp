#include "backend/cpu/linear.h"

#include <gtest/gtest.h>

#include <cmath>

#include "backend/cpu/weight_samples.h"
#include "backend/weight_dtypes.h"

namespace pagoda::cpu {
namespace {

using Rows = std::vector<float>;

Rows random_rows(int64_t tokens, int64_t cols, uint64_t seed = 7) {
  SampleRandom random(seed);
  Rows x(tokens * cols);
  for (float& v : x) v = random.uniform(-1.f, 1.f) * (random.next() % 16 == 0 ? 8.f : 1.f);
  return x;
}

// What a weight of this type is multiplied with: the row, or the row rounded.
Rows rounded_row(const float* x, int64_t cols, DType dtype, IsaLevel isa) {
  Rows out(x, x + cols);
  if (dtype == DType::bf16 && isa == IsaLevel::v4_bf16)
    for (float& v : out) v = bf16_to_f32(f32_to_bf16(v));
  if (!is_quantised(dtype)) return out;
  for (int64_t b = 0; b < cols; b += 32) {
    float largest = 0;
    for (int i = 0; i < 32; i++) largest = std::max(largest, std::fabs(x[b + i]));
    const float d = largest / 127.f;
    for (int i = 0; i < 32; i++)
      out[b + i] = d < 0x1p-126f ? 0.f : d * std::nearbyint(x[b + i] * (1.f / d));
  }
  return out;
}

struct Call {
  IsaLevel isa = IsaLevel::v3;
  int threads = 1;
  const Rows* bias = nullptr;
  const Rows* residual = nullptr;
  float scale = 1.f;
  float softcap = 0.f;
};

// [tokens, Σ rows]
Rows multiply(const Call& call,
              const std::vector<const GgufTensor*>& tensors,
              const Rows& x,
              int64_t tokens) {
  const int64_t cols = tensors[0]->cols;
  int64_t rows = 0;
  for (const GgufTensor* t : tensors) rows += t->rows;
  const WorkspaceShape shape{
      .max_tokens = static_cast<int32_t>(tokens), .max_cols = cols, .max_rows = rows};
  TestContext test(call.isa, call.threads, linear_scratch_bytes(shape, call.threads));
  std::vector<Weight> weights;
  std::vector<const Weight*> pointers;
  for (const GgufTensor* t : tensors) weights.push_back(pack(test.context, t->view()));
  for (const Weight& w : weights) pointers.push_back(&w);
  // One element more than the operation may write.
  Rows out(tokens * rows + 1, 12345.f);
  if (call.residual) std::copy(call.residual->begin(), call.residual->end(), out.begin());
  auto* data = reinterpret_cast<std::byte*>(out.data());
  LinearArgs args{
      .x =
          ConstTensorView(reinterpret_cast<const std::byte*>(x.data()), DType::f32, {tokens, cols}),
      .weights = pointers,
      .out = TensorView(data, DType::f32, {tokens, rows}),
      .softcap = call.softcap,
      .scale = call.scale,
  };
  if (call.bias)
    args.bias =
        ConstTensorView(reinterpret_cast<const std::byte*>(call.bias->data()), DType::f32, {rows});
  if (call.residual) args.residual = args.out;
  linear(test.context, args);
  EXPECT_EQ(out.back(), 12345.f);
  out.pop_back();
  return out;
}

// Against float64 products of the weights' exact values with the rows as they are rounded.
void expect_product(
    const Rows& out, const GgufTensor& tensor, const Rows& x, int64_t tokens, IsaLevel isa) {
  const int64_t cols = tensor.cols;
  for (int64_t r = 0; r < tensor.rows; r++) {
    const Rows w = tensor.row(r);
    for (int64_t t = 0; t < tokens; t++) {
      const Rows y = rounded_row(&x[t * cols], cols, tensor.dtype, isa);
      double want = 0, size = 0;
      for (int64_t k = 0; k < cols; k++) {
        want += double(w[k]) * y[k];
        size += std::fabs(double(w[k]) * y[k]);
      }
      // A block's scale and minimum are applied apart: the minimum's share may exceed the sum.
      ASSERT_NEAR(out[t * tensor.rows + r], want, 4e-6 * size + 1e-30)
          << name(tensor.dtype) << " " << name(isa) << " row " << r << " token " << t;
    }
  }
}

class LinearTest : public testing::TestWithParam<std::tuple<DType, IsaLevel>> {
 protected:
  DType dtype() const { return std::get<0>(GetParam()); }
  IsaLevel isa() const { return std::get<1>(GetParam()); }
  int64_t block() const { return std::max(32, info(dtype()).block_elements); }
};
INSTANTIATE_TEST_SUITE_P(,
                         LinearTest,
                         testing::Combine(testing::ValuesIn(kWeightDTypes),
                                          testing::ValuesIn(supported_isas())),
                         [](const auto& test) {
                           std::string isa(name(std::get<1>(test.param)));
                           std::replace(isa.begin(), isa.end(), '-', '_');
                           return std::string(name(std::get<0>(test.param))) + "_on_" + isa;
                         });

TEST_P(LinearTest, equals_the_float64_product) {
  for (int64_t cols : {block(), 3 * block(), int64_t{4096}})
    for (int64_t rows : {1, 16, 31, 33}) {
      const GgufTensor w = sample_tensor(dtype(), rows, cols);
      for (int64_t tokens : {1, 5, 8}) {
        const Rows x = random_rows(tokens, cols);
        expect_product(multiply({isa()}, {&w}, x, tokens), w, x, tokens, isa());
        if (HasFatalFailure()) return;
      }
    }
}

TEST_P(LinearTest, multiplies_extreme_blocks_exactly) {
  for (Sample sample :
       {Sample::zeros, Sample::largest, Sample::smallest, Sample::subnormal_scales}) {
    const GgufTensor w = sample_tensor(dtype(), 33, 2 * block(), sample);
    for (float magnitude : {1.f, -1.f, 1e-30f, 1e20f}) {
      const Rows x(3 * w.cols, magnitude);
      expect_product(multiply({isa()}, {&w}, x, 3), w, x, 3, isa());
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(LinearTest, gives_a_row_the_same_bits_in_any_company) {
  constexpr int64_t kTokens = 41;
  const GgufTensor w = sample_tensor(dtype(), 83, 2 * block());
  const Rows x = random_rows(kTokens, w.cols);
  const Rows whole = multiply({isa()}, {&w}, x, kTokens);
  for (int threads : {1, 2, 3})
    for (int64_t tokens : {1, 2, 3, 4, 5, 6, 7, 9, 12, 13, 41})
      for (int64_t first : {int64_t{0}, (kTokens - tokens) / 2, kTokens - tokens}) {
        const Rows part(x.begin() + first * w.cols, x.begin() + (first + tokens) * w.cols);
        const Rows want(whole.begin() + first * w.rows, whole.begin() + (first + tokens) * w.rows);
        ASSERT_EQ(multiply({isa(), threads}, {&w}, part, tokens), want)
            << threads << " threads, tokens " << first << "+" << tokens;
      }
}

TEST_P(LinearTest, gives_a_row_the_same_bits_when_rows_are_taken_in_chunks) {
  constexpr int64_t kTokens = 300;  // more rounded rows than a chunk holds
  const GgufTensor w = sample_tensor(dtype(), 40, 2048);
  const Rows x = random_rows(kTokens, w.cols);
  const Rows whole = multiply({isa(), 3}, {&w}, x, kTokens);
  for (int64_t t : {0, 99, 100, 150, 299}) {
    const Rows one(x.begin() + t * w.cols, x.begin() + (t + 1) * w.cols);
    const Rows want(whole.begin() + t * w.rows, whole.begin() + (t + 1) * w.rows);
    ASSERT_EQ(multiply({isa(), 1}, {&w}, one, 1), want) << "token " << t;
  }
}

TEST_P(LinearTest, lays_weights_of_different_types_side_by_side) {
  const int64_t cols = 512, tokens = 7;
  const GgufTensor a = sample_tensor(dtype(), 40, cols), b = sample_tensor(DType::q8_0, 17, cols),
                   c = sample_tensor(DType::bf16, 9, cols);
  const Rows x = random_rows(tokens, cols);
  const Rows together = multiply({isa(), 2}, {&a, &b, &c}, x, tokens);
  int64_t column = 0;
  for (const GgufTensor* w : {&a, &b, &c}) {
    const Rows alone = multiply({isa()}, {w}, x, tokens);
    for (int64_t t = 0; t < tokens; t++)
      for (int64_t r = 0; r < w->rows; r++)
        ASSERT_EQ(together[t * 66 + column + r], alone[t * w->rows + r]);
    column += w->rows;
  }
}

TEST_P(LinearTest, a_nan_in_a_row_reaches_its_outputs_and_no_other_row) {
  const GgufTensor w = sample_tensor(dtype(), 32, block());
  Rows x = random_rows(7, w.cols);
  const Rows clean = multiply({isa()}, {&w}, x, 7);
  x[2 * w.cols + 3] = std::nanf("");
  const Rows out = multiply({isa()}, {&w}, x, 7);
  for (int64_t t = 0; t < 7; t++)
    for (int64_t r = 0; r < w.rows; r++) {
      if (t == 2)
        EXPECT_TRUE(std::isnan(out[t * w.rows + r]));
      else
        EXPECT_EQ(out[t * w.rows + r], clean[t * w.rows + r]);
    }
}

TEST(Linear, adds_bias_then_scales_then_caps_then_adds_the_residual) {
  const int64_t rows = 45, tokens = 7;
  const GgufTensor w = sample_tensor(DType::f32, rows, 64);
  const Rows x = random_rows(tokens, 64), bias = random_rows(1, rows, 3),
             residual = random_rows(tokens, rows, 4);
  for (IsaLevel isa : supported_isas())
    for (float softcap : {0.f, 2.f}) {
      const Rows plain = multiply({isa}, {&w}, x, tokens);
      const Rows out = multiply({isa, 2, &bias, &residual, 0.5f, softcap}, {&w}, x, tokens);
      for (int64_t i = 0; i < tokens * rows; i++) {
        float want = (plain[i] + bias[i % rows]) * 0.5f;
        if (softcap > 0) want = softcap * std::tanh(want / softcap);
        EXPECT_FLOAT_EQ(out[i], want + residual[i]) << name(isa) << " " << i;
      }
    }
}

TEST(Linear, multiplies_floats_with_an_odd_number_of_columns) {
  for (IsaLevel isa : supported_isas())
    for (DType dtype : {DType::f32, DType::f16, DType::bf16})
      for (int64_t cols : {1, 7, 33, 129}) {
        const GgufTensor w = sample_tensor(dtype, 19, cols);
        const Rows x = random_rows(5, cols);
        expect_product(multiply({isa}, {&w}, x, 5), w, x, 5, isa);
      }
}

TEST(Linear, accepts_no_rows) {
  const GgufTensor w = sample_tensor(DType::q8_0, 32, 32);
  EXPECT_TRUE(multiply({}, {&w}, {}, 0).empty());
}

}  // namespace
}  // namespace pagoda::cpu
