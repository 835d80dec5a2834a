// The step's new tokens: Q and K normalised (where the model does) and rotated, K and V put into
// the cache in its format and order (kv_layout.h). One kernel, one warp a (token, head).
#pragma once

#include "backend/cuda/launch.h"
#include "backend/op_args.h"

namespace pagoda::cuda {

struct AppendLaunch {
  const RopeStoreKvArgs& args;      // q, k, v bf16 or f16, all alike
  const float* k_scales = nullptr;  // fp8: [KH] f32, x = scale * stored; null: 1
  const float* v_scales = nullptr;
};

// Lets the next kernel start (up to its pdl_wait) only once everything before this one is done:
// decode attention may then read older keys early (EarlyLoads::older_keys).
void rope_store_kv(const AppendLaunch& launch, const LaunchOptions& options);

}  // namespace pagoda::cuda
