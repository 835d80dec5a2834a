// Packing: a checkpoint's tensor into the panels that the kernels of linear read (panel_format.h),
// once, at load, and rows of it back out (embedding tables share the matrix of the output head).
//
// No weight is requantised: what a packed code stands for is exactly what the GGUF block said.
#pragma once

#include "backend/cpu/context.h"

namespace pagoda::cpu {

// Throws Error{"model.unsupported_type"} for a dtype that has no kernel.
int64_t packed_bytes(DType dtype, int64_t rows, int64_t cols);
Weight pack(Context& context, ConstTensorView checkpoint_tensor);
// Rows first_row … of a matrix whose bytes are taken already; first_row is a multiple of 16.
void pack_rows(Context& context, Weight& weight, int64_t first_row, ConstTensorView rows);
// Row `row` of the matrix that was packed, widened to f32: out[0 .. cols).
void unpack_row(const Context& context, const Weight& weight, int64_t row, float* out);

}  // namespace pagoda::cpu
