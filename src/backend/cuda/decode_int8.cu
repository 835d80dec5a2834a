// Decode kernels over int8 KV: 8 columns, every head size.
#include "backend/cuda/decode_instances.cuh"

namespace pagoda::cuda {

std::span<const DecodeInstance> decode_int8_instances() {
  static const DecodeInstance kTable[] = {
      instance<Format::int8, 64, 1, 1>(),
      instance<Format::int8, 80, 1, 1>(),
      instance<Format::int8, 96, 1, 1>(),
      instance<Format::int8, 128, 1, 1>(),
      instance<Format::int8, 192, 1, 1>(),
      instance<Format::int8, 256, 1, 1>(),
  };
  return kTable;
}

}  // namespace pagoda::cuda
