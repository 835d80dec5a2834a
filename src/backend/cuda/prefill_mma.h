// Prefill attention by mma.sync: what prefill.cpp launches on devices that are not Hopper, over
// quantised KV, for odd head sizes in f16, and where the caller asks for it. Internal to the CUDA
// backend.
#pragma once

#include "backend/cuda/prefill.h"
#include "backend/cuda/prefill_params.h"

namespace pagoda::cuda {

// Throws Error{"cuda.unsupported"} if there is no kernel.
PrefillTileSize prefill_mma_tile(KvDType dtype, int32_t head_dim);

// `params`: all but what the mma.sync kernels add.
void prefill_mma_attention(const PrefillLaunch& launch,
                           const PrefillParams& params,
                           const LaunchOptions& options);

}  // namespace pagoda::cuda
