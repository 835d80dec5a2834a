// Prefill kernels for head sizes 64, 80 and 96. Tiles: docs/kernels.md.
#include "backend/cuda/prefill_instances.cuh"

namespace pagoda::cuda {

std::span<const PrefillInstance> prefill_hd64_instances() {
  static const PrefillInstance kTable[] = {
      prefill_instance<true, 64, 128, 2, MatrixTurns::in_order>(),
      prefill_instance<false, 64, 128, 2, MatrixTurns::in_order>(),
      prefill_instance<true, 80, 128, 2, MatrixTurns::free>(),
      prefill_instance<true, 96, 128, 2, MatrixTurns::free>(),
  };
  return kTable;
}

}  // namespace pagoda::cuda
