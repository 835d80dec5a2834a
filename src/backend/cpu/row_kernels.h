// The kernels that read each row once or twice: norm, activation, and the scaling of embeddings,
// for one instruction set. One call is one row.
#pragma once

#include <stdint.h>

#include "backend/cpu/isa.h"

namespace pagoda::cpu {

// out = (x - mean) * scale * weight + bias, with mean 0 unless `subtract_mean`, and scale
// 1 / √(mean square + epsilon). A null weight is 1, a null bias 0. All [n].
struct NormRow {
  const float* x;
  const float* weight;
  const float* bias;
  float* out;
  int64_t n;
  float epsilon;
  bool subtract_mean;
  bool add_to_out;  // out += instead
};

struct RowKernels {
  void (*norm)(const NormRow& row);
  void (*add)(float* x, const float* y, int64_t n);  // x += y
  // out = f(x), times gate where there is one. f: Activation's number.
  void (*activation)(int function, const float* x, const float* gate, float* out, int64_t n);
  void (*scale)(float* x, float factor, int64_t n);  // x *= factor
};

namespace v3 {
void fill(RowKernels& kernels);
}
namespace v4 {
void fill(RowKernels& kernels);
}

inline RowKernels row_kernels(IsaLevel level) {
  RowKernels kernels;
  level >= IsaLevel::v4 ? v4::fill(kernels) : v3::fill(kernels);
  return kernels;
}

}  // namespace pagoda::cpu
