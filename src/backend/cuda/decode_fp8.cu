// Decode kernels over fp8 KV.
#include "backend/cuda/decode_instances.cuh"

namespace pagoda::cuda {

std::span<const DecodeInstance> decode_fp8_instances() {
  static const DecodeInstance kTable[] = {
      instance<Format::fp8, 64>(),
      instance<Format::fp8, 128>(),
      instance<Format::fp8, 256>(),
  };
  return kTable;
}

}  // namespace pagoda::cuda
