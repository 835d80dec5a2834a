// The kernels of linear and pack for one instruction set.
#pragma once

#include "backend/cpu/isa.h"

namespace pagoda::cpu {

struct LinearKernels {};
inline LinearKernels linear_kernels(IsaLevel) {
  return {};
}

}  // namespace pagoda::cpu
