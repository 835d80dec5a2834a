#include "backend/cuda/limits.h"

#include <gtest/gtest.h>

#include "backend/cuda/format.h"
#include "base/error.h"

namespace pagoda::cuda {
namespace {

constexpr WorkspaceShape kLargest = {.max_context = kMaxContext,
                                     .max_cols = 1 << 22,
                                     .norm_cols = kMaxNormCols,
                                     .head_dim = 256,
                                     .vocabulary = kMaxVocabulary - 1};

std::string refusal_of(const WorkspaceShape& shape) {
  try {
    check_limits(shape);
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), "cuda.unsupported");
    return std::string(e.message());
  }
  return "";
}

TEST(CudaLimits, the_largest_is_held) {
  EXPECT_EQ(refusal_of(kLargest), "");
  EXPECT_EQ(refusal_of({}), "");
}

TEST(CudaLimits, what_is_beyond_is_refused_with_the_limit_and_what_to_do) {
  WorkspaceShape shape = kLargest;
  shape.norm_cols++;
  EXPECT_EQ(refusal_of(shape), "hidden size 49153: up to 49152 is supported; use --device cpu");
  shape = kLargest;
  shape.vocabulary++;
  EXPECT_EQ(refusal_of(shape),
            "a vocabulary of 8388608: less than 8388608 are supported; use --device cpu");
  shape = kLargest;
  shape.max_context++;
  EXPECT_EQ(refusal_of(shape),
            "sequences of 3145729 tokens: up to 3145728 are supported; lower --max-model-len");
}

TEST(CudaLimits, head_sizes_are_those_that_the_message_names) {
  std::string names;
  for (int32_t dim = 16; dim <= 256; dim += 16) {
    WorkspaceShape shape = kLargest;
    shape.head_dim = dim;
    const std::string refusal = refusal_of(shape);
    EXPECT_EQ(refusal.empty(), has_head_size(dim)) << dim;
    if (refusal.empty())
      names += (names.empty() ? "" : dim == 256 ? " and " : ", ") + std::to_string(dim);
    else
      EXPECT_NE(refusal.find(kHeadSizeNames), std::string::npos) << refusal;
  }
  EXPECT_EQ(names, kHeadSizeNames);
}

}  // namespace
}  // namespace pagoda::cuda
