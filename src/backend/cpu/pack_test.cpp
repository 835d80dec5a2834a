#include "backend/cpu/pack.h"

#include <gtest/gtest.h>

#include "backend/cpu/weight_samples.h"
#include "backend/weight_dtypes.h"

namespace pagoda::cpu {
namespace {

class PackTest : public testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(, PackTest, testing::ValuesIn(kWeightDTypes), [](const auto& test) {
  return std::string(name(test.param));
});

void expect_rows_come_back(const GgufTensor& tensor) {
  TestContext test(IsaLevel::v3, 2, 0);
  const Weight weight = pack(test.context, tensor.view());
  std::vector<float> out(tensor.cols);
  for (int64_t r = 0; r < tensor.rows; r++) {
    unpack_row(test.context, weight, r, out.data());
    ASSERT_EQ(out, tensor.row(r)) << name(tensor.dtype) << " row " << r;
  }
}

TEST_P(PackTest, rows_come_back_exactly) {
  expect_rows_come_back(sample_tensor(GetParam(), 37, 768));
  expect_rows_come_back(sample_tensor(GetParam(), 1, 256));
  expect_rows_come_back(sample_tensor(GetParam(), 16, 256));
}

TEST_P(PackTest, extreme_blocks_come_back_exactly) {
  for (Sample sample : {Sample::zeros, Sample::largest, Sample::smallest, Sample::subnormal_scales})
    expect_rows_come_back(sample_tensor(GetParam(), 18, 256, sample));
}

TEST_P(PackTest, rows_may_lie_apart) {
  const GgufTensor wide = sample_tensor(GetParam(), 20, 512);
  TestContext test(IsaLevel::v3, 1, 0);
  const Weight all = pack(test.context, wide.view());
  const Weight some = pack(test.context, wide.view().slice_rows(3, 9));
  std::vector<float> a(512), b(512);
  for (int64_t r = 0; r < 9; r++) {
    unpack_row(test.context, all, r + 3, a.data());
    unpack_row(test.context, some, r, b.data());
    EXPECT_EQ(a, b);
  }
}

TEST_P(PackTest, allocates_what_packed_bytes_says) {
  TestContext test(IsaLevel::v3, 1, 0);
  for (int64_t rows : {1, 16, 17, 100})
    for (int64_t cols : {256, 768, 4096}) {
      const Weight weight = pack(test.context, sample_tensor(GetParam(), rows, cols).view());
      EXPECT_EQ(weight.data.size(), packed_bytes(GetParam(), rows, cols));
      EXPECT_EQ(test.allocator.allocated(MemoryTag::weights), weight.data.size());
    }
}

TEST_P(PackTest, is_at_most_a_twentieth_larger_than_the_file) {
  const int64_t file = 4096 * bytes_of(GetParam(), 4096);
  EXPECT_LE(packed_bytes(GetParam(), 4096, 4096), file + file / 20);
  EXPECT_GE(packed_bytes(GetParam(), 4096, 4096), file);
}

TEST(Pack, takes_odd_columns_of_floats) {
  for (DType dtype : {DType::f32, DType::f16, DType::bf16})
    for (int64_t cols : {1, 2, 63, 65, 129}) expect_rows_come_back(sample_tensor(dtype, 5, cols));
}

TEST(Pack, takes_one_block_of_the_small_quantised_types) {
  for (DType dtype : {DType::q8_0, DType::q4_0, DType::q4_1, DType::q5_0, DType::q5_1})
    for (int64_t cols : {32, 96, 576}) expect_rows_come_back(sample_tensor(dtype, 33, cols));
}

TEST(Pack, names_a_type_that_cannot_be_multiplied) {
  try {
    packed_bytes(DType::i32, 4, 4);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), "model.unsupported_type");
    EXPECT_NE(std::string(error.what()).find("i32"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace pagoda::cpu
