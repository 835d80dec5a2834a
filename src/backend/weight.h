// Weight: a matrix [rows, cols] (output features by input features) in the order that a backend's
// kernels multiply it, made once by Backend::pack. It stays quantised; nothing expands it as a
// whole. The bytes lie in backend memory under MemoryTag::weights.
#pragma once

#include <cstdint>

#include "base/buffer.h"
#include "base/dtype.h"

namespace pagoda {

struct Weight {
  DType dtype = DType::f32;  // as stored in the checkpoint
  int64_t rows = 0;
  int64_t cols = 0;
  Buffer data;
};

}  // namespace pagoda
