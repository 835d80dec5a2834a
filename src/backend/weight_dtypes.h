// The dtypes of weights that a Backend multiplies: what the tests of packing, of products and of
// whole models walk, so that a new one is one row here. Everything else is refused by
// Backend::packed_bytes as "model.unsupported_type".
#pragma once

#include <array>

#include "base/dtype.h"

namespace pagoda {

inline constexpr std::array kWeightDTypes = {DType::f32,
                                             DType::f16,
                                             DType::bf16,
                                             DType::q8_0,
                                             DType::q4_0,
                                             DType::q4_1,
                                             DType::q5_0,
                                             DType::q5_1,
                                             DType::q4_k,
                                             DType::q5_k,
                                             DType::q6_k};

}  // namespace pagoda
