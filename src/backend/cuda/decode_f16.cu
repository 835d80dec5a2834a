// Decode kernels over f16 KV.
#include "backend/cuda/decode_instances.cuh"

namespace pagoda::cuda {

std::span<const DecodeInstance> decode_f16_instances() {
  static const DecodeInstance kTable[] = {
      instance<Format::f16, 64>(),
      instance<Format::f16, 128>(),
      instance<Format::f16, 256>(),
  };
  return kTable;
}

}  // namespace pagoda::cuda
