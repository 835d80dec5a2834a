// Decode kernels of 16 columns a team, over bf16 or f16 KV, by wgmma on Hopper: many query heads of
// one KV head, drafts, shared prefixes. Teams of 8 columns in the other kernels do the same at 0.8
// to 0.9 of the speed (docs/kernels.md).
#include "backend/cuda/decode_instances.cuh"

namespace pagoda::cuda {

std::span<const DecodeInstance> decode_wide_instances() {
  static const DecodeInstance kTable[] = {
      wide_instance<128>(),
  };
  return kTable;
}

}  // namespace pagoda::cuda
