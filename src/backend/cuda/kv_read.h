// What one slot of a CUDA cache holds, read on the host from the bytes of its block: the inverse of
// the append kernel's order (kv_layout.h), for tests and inspection.
#pragma once

#include <cstddef>
#include <span>

#include "backend/kv_format.h"

namespace pagoda::cuda {

// `head`: the head_bytes() of one (block, KV head), on the host; `row`: the token in its block.
// Out: K [k_dim] and V [v_dim] widened to f32. fp8 is read with a scale of 1. Throws
// Error{"cuda.unsupported"} for f32.
void read_kv_row(const KvFormat& format,
                 const std::byte* head,
                 int32_t row,
                 std::span<float> k,
                 std::span<float> v);

}  // namespace pagoda::cuda
