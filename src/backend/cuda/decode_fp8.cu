// Decode kernels over fp8 KV: 8 columns, every head size.
#include "backend/cuda/decode_instances.cuh"

namespace pagoda::cuda {

std::span<const DecodeInstance> decode_fp8_instances() {
  static const DecodeInstance kTable[] = {
      instance<Format::fp8, 64, 1, 1>(),
      instance<Format::fp8, 80, 1, 1>(),
      instance<Format::fp8, 96, 1, 1>(),
      instance<Format::fp8, 128, 1, 1>(),
      instance<Format::fp8, 192, 1, 1>(),
      instance<Format::fp8, 256, 1, 1>(),
  };
  return kTable;
}

}  // namespace pagoda::cuda
