// Weights packed for this backend's kernels, and the products with them.
#pragma once

#include "backend/cpu/context.h"

namespace pagoda::cpu {

int64_t packed_bytes(DType dtype, int64_t rows, int64_t cols);
Weight pack(Context& context, ConstTensorView checkpoint_tensor);
// Row `row` of the matrix that was packed, widened to f32: out[0 .. cols).
void unpack_row(const Context& context, const Weight& weight, int64_t row, float* out);

int64_t linear_scratch_bytes(const WorkspaceShape& shape, int num_threads);
void linear(Context& context, const LinearArgs& args);

}  // namespace pagoda::cpu
