// The loops that machine_limits times, for one instruction set.
#pragma once

#include <stdint.h>

#include "backend/cpu/isa.h"

namespace pagoda::cpu {

// Runs `steps` steps of independent sums, more of them than latency times throughput, and returns
// the operations that it did.
using ArithmeticLoop = double (*)(int64_t steps);

struct MachineLimitsKernels {
  // Reads [data, data + bytes), 64-byte aligned, bytes a multiple of 512; the result depends on it.
  int64_t (*read)(const uint8_t* data, int64_t bytes);
  ArithmeticLoop int8, f32, bf16;
};

namespace v3 {
void fill(MachineLimitsKernels& kernels);
}
namespace v3_avxvnni {
void fill(MachineLimitsKernels& kernels);
}
namespace v4 {
void fill(MachineLimitsKernels& kernels);
}
namespace v4_vnni {
void fill(MachineLimitsKernels& kernels);
}
namespace v4_bf16 {
void fill(MachineLimitsKernels& kernels);
}

}  // namespace pagoda::cpu
