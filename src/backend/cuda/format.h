// The waist's KV dtypes as the kernels' formats, and the head sizes that there are.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

#include "backend/cuda/kv_layout.h"
#include "backend/kv_format.h"
#include "base/error.h"

namespace pagoda::cuda {

// Of every format, as far as a row of it is whole units of 16 bytes.
constexpr std::array<int32_t, 6> kHeadSizes = {64, 80, 96, 128, 192, 256};
constexpr std::string_view kHeadSizeNames = "64, 80, 96, 128, 192 and 256";
constexpr bool has_head_size(int32_t dim) {
  return std::find(kHeadSizes.begin(), kHeadSizes.end(), dim) != kHeadSizes.end();
}

// Throws Error{"cuda.unsupported"} for f32.
inline Format cuda_format(KvDType dtype) {
  switch (dtype) {
    case KvDType::bf16:
      return Format::bf16;
    case KvDType::f16:
      return Format::f16;
    case KvDType::fp8:
      return Format::fp8;
    case KvDType::int8:
      return Format::int8;
    case KvDType::int4:
      return Format::int4;
    case KvDType::f32:
      break;
  }
  throw Error("cuda.unsupported", "KV dtype {}: bf16, f16, fp8, int8 and int4 are", name(dtype));
}

}  // namespace pagoda::cuda
