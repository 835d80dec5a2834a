// Decode kernels over int4 KV.
#include "backend/cuda/decode_instances.cuh"

namespace pagoda::cuda {

std::span<const DecodeInstance> decode_int4_instances() {
  static const DecodeInstance kTable[] = {
      instance<Format::int4, 64>(),
      instance<Format::int4, 128>(),
      instance<Format::int4, 256>(),
  };
  return kTable;
}

}  // namespace pagoda::cuda
