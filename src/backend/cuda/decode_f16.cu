// Decode kernels over f16 KV: 8 columns for every head size; 32 columns, by wgmma on Hopper, for
// the common ones.
#include "backend/cuda/decode_instances.cuh"

namespace pagoda::cuda {

std::span<const DecodeInstance> decode_f16_instances() {
  static const DecodeInstance kTable[] = {
      instance<Format::f16, 64, 1, 1>(),
      instance<Format::f16, 64, 2, 2>(),
      instance<Format::f16, 80, 1, 1>(),
      instance<Format::f16, 96, 1, 1>(),
      instance<Format::f16, 128, 1, 1>(),
      instance<Format::f16, 128, 2, 2>(),
      instance<Format::f16, 192, 1, 1>(),
      instance<Format::f16, 256, 1, 1>(),
      instance<Format::f16, 256, 2, 2>(),
  };
  return kTable;
}

}  // namespace pagoda::cuda
