// Prefill kernels for head sizes 192 and 256. Tiles: docs/kernels.md.
#include "backend/cuda/prefill_instances.cuh"

namespace pagoda::cuda {

std::span<const PrefillInstance> prefill_hd256_instances() {
  static const PrefillInstance kTable[] = {
      prefill_instance<true, 192, 80, 2, MatrixTurns::free>(),
      prefill_instance<true, 256, 64, 2, MatrixTurns::free>(),
      prefill_instance<false, 256, 64, 2, MatrixTurns::free>(),
  };
  return kTable;
}

}  // namespace pagoda::cuda
