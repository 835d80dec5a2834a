// What the CUDA backend's kernels can be asked for: the memory plan learns of it (by
// workspace_bytes) before anything is loaded, so no operation is the first to refuse a model. Pure
// functions.
#pragma once

#include "backend/backend.h"

namespace pagoda::cuda {

constexpr int64_t kMaxNormCols = 48 << 10;   // a row as f32 in a block's shared memory
constexpr int64_t kMaxVocabulary = 1 << 23;  // fixed-point weights of all tokens sum in 64 bits
constexpr int32_t kMaxContext = 3 << 20;     // a row's sections in merge's shared memory

// Throws Error{"cuda.unsupported"}, which names the limit and what to do.
void check_limits(const WorkspaceShape& shape);

}  // namespace pagoda::cuda
