// Prefill kernels by mma.sync for head sizes up to 64.
#include "backend/cuda/prefill_mma_instances.cuh"

namespace pagoda::cuda {

std::span<const PrefillMmaInstance> prefill_mma_hd64_instances() {
  static const PrefillMmaInstance kTable[] = {
      prefill_mma_instance<true, 64, 128, 4, 2, 2>(PrefillMmaServes::plain),
      prefill_mma_instance<false, 64, 128, 4, 2, 2>(PrefillMmaServes::all),

  };
  return kTable;
}

}  // namespace pagoda::cuda
