// Decode kernels over int8 KV.
#include "backend/cuda/decode_instances.cuh"

namespace pagoda::cuda {

std::span<const DecodeInstance> decode_int8_instances() {
  static const DecodeInstance kTable[] = {
      instance<Format::int8, 64>(),
      instance<Format::int8, 128>(),
      instance<Format::int8, 256>(),
  };
  return kTable;
}

}  // namespace pagoda::cuda
