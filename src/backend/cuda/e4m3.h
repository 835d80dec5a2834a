// The number of an fp8 code, e4m3 (Micikevicius et al. 2022), by its definition: for the naive
// kernel and the reader for inspection. The fast kernels convert by hardware (codes.cuh).
#pragma once

#include <cmath>

#include "backend/cuda/kv_layout.h"

namespace pagoda::cuda {

// Bias 7, no infinities.
PAGODA_HD inline float from_e4m3(uint32_t bits) {
  const int exponent = static_cast<int>(bits >> 3 & 15), mantissa = static_cast<int>(bits & 7);
  if ((bits & 0x7F) == 0x7F) return NAN;
  const float x = exponent == 0 ? ldexpf(static_cast<float>(mantissa), -9)
                                : ldexpf(static_cast<float>(8 + mantissa), exponent - 10);
  return bits & 0x80 ? -x : x;
}

}  // namespace pagoda::cuda
