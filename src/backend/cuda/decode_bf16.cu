// Decode kernels over bf16 KV.
#include "backend/cuda/decode_instances.cuh"

namespace pagoda::cuda {

std::span<const DecodeInstance> decode_bf16_instances() {
  static const DecodeInstance kTable[] = {
      instance<Format::bf16, 64>(),
      instance<Format::bf16, 128>(),
      instance<Format::bf16, 256>(),
  };
  return kTable;
}

}  // namespace pagoda::cuda
