// KernelTable: the kernels of every family of operations for one instruction set, chosen once, when
// the backend is made. A family plugs in with one member and one line in kernel_table().
#pragma once

#include "backend/cpu/attention_kernels.h"
#include "backend/cpu/isa.h"
#include "backend/cpu/linear_kernels.h"
#include "backend/cpu/row_kernels.h"
#include "backend/cpu/sample_kernels.h"

namespace pagoda::cpu {

struct KernelTable {
  RowKernels row;
  SampleKernels sample;
  LinearKernels linear;
  AttentionKernels attention;
};

inline KernelTable kernel_table(IsaLevel level) {
  return {
      .row = row_kernels(level),
      .sample = sample_kernels(level),
      .linear = linear_kernels(level),
      .attention = attention_kernels(level),
  };
}

}  // namespace pagoda::cpu
