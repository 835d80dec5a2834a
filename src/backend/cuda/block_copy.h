// Whole blocks of the cache, in every layer: copied (a sequence forks inside a block) and zeroed.
#pragma once

#include <span>

#include "backend/cuda/launch.h"
#include "backend/kv_format.h"

namespace pagoda::cuda {

// Host spans; they travel in the kernels' arguments, so a captured graph keeps those of its
// capture. No block may be both read and written in one call.
void copy_blocks(std::span<const KvView> layers,
                 std::span<const BlockCopy> copies,
                 const LaunchOptions& options);
void zero_blocks(std::span<const KvView> layers,
                 std::span<const int32_t> blocks,
                 const LaunchOptions& options);

}  // namespace pagoda::cuda
