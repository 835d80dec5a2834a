// Decode kernels over int4 KV: 8 columns, every head size but 80, whose rows are no multiple of 16
// bytes.
#include "backend/cuda/decode_instances.cuh"

namespace pagoda::cuda {

std::span<const DecodeInstance> decode_int4_instances() {
  static const DecodeInstance kTable[] = {
      instance<Format::int4, 64, 1, 1>(),
      instance<Format::int4, 96, 1, 1>(),
      instance<Format::int4, 128, 1, 1>(),
      instance<Format::int4, 192, 1, 1>(),
      instance<Format::int4, 256, 1, 1>(),
  };
  return kTable;
}

}  // namespace pagoda::cuda
