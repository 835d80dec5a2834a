// Dequantisation: the numbers that the stored bytes of a tensor's row stand for. Scalar and exact,
// straight from the GGUF block definitions (the structs of ggml-common.h); this is the meaning that
// every packed layout and every kernel is measured against, so it is written to be read, not to be
// fast.
//
// A product of a block's f16 scale, its 6- or 8-bit sub-scale and a weight of at most 8 bits fits
// in the 24 bits of a float: only subtracting a minimum rounds, once.
#pragma once

#include <cstddef>
#include <span>

#include "base/dtype.h"

namespace pagoda {

// Writes the out.size() elements that start at `row`, reading exactly bytes_of(dtype, out.size())
// bytes (of any alignment). out.size() is a multiple of the type's block. Integers and f64 convert
// to the nearest float.
void dequantise_row(DType dtype, const std::byte* row, std::span<float> out);

}  // namespace pagoda
