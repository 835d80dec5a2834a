// The kernels that pass over a row of logits, for one instruction set.
#pragma once

#include <stdint.h>

#include "backend/cpu/isa.h"

namespace pagoda::cpu {

struct Peak {
  float value;
  int32_t id;    // the lowest among equals
  bool has_nan;  // somewhere in the row
};

struct SampleKernels {
  // The largest of x[0 .. n), n > 0.
  Peak (*peak)(const float* x, int64_t n);
  // Σ exp((x[i] - peak) * factor), each term in weights[i] unless that is null.
  double (*weights)(const float* x, int64_t n, float peak, float factor, float* weights);
  // Appends the ids with low <= x[id] < high, ascending; returns how many. `ids` has room for n.
  int64_t (*collect)(const float* x, int64_t n, float low, float high, int32_t* ids);
};

namespace v3 {
void fill(SampleKernels& kernels);
}
namespace v4 {
void fill(SampleKernels& kernels);
}

inline SampleKernels sample_kernels(IsaLevel level) {
  SampleKernels kernels;
  level >= IsaLevel::v4 ? v4::fill(kernels) : v3::fill(kernels);
  return kernels;
}

}  // namespace pagoda::cpu
