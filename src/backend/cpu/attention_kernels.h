// The kernels of attention and of the KV store for one instruction set.
#pragma once

#include "backend/cpu/isa.h"

namespace pagoda::cpu {

struct AttentionKernels {};
inline AttentionKernels attention_kernels(IsaLevel) {
  return {};
}

}  // namespace pagoda::cpu
