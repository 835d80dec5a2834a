// Prefill kernels for head sizes 128. Tiles: docs/kernels.md.
#include "backend/cuda/prefill_instances.cuh"

namespace pagoda::cuda {

std::span<const PrefillInstance> prefill_hd128_instances() {
  static const PrefillInstance kTable[] = {
      prefill_instance<true, 128, 128, 2, MatrixTurns::free>(),
      prefill_instance<false, 128, 128, 2, MatrixTurns::free>(),
  };
  return kTable;
}

}  // namespace pagoda::cuda
