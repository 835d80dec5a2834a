// Prefill kernels by mma.sync for head sizes up to 256. Over quantised KV codes leave no room for
// two blocks on a multiprocessor: one of 8 warps, and one of 4 for devices with 99 KB a block.
#include "backend/cuda/prefill_mma_instances.cuh"

namespace pagoda::cuda {

std::span<const PrefillMmaInstance> prefill_mma_hd256_instances() {
  static const PrefillMmaInstance kTable[] = {
      prefill_mma_instance<true, 256, 64, 4, 1, 2>(PrefillMmaServes::plain),
      prefill_mma_instance<false, 256, 64, 4, 1, 2>(PrefillMmaServes::plain),
      prefill_mma_instance<false, 256, 64, 8, 1, 1>(PrefillMmaServes::all),
      prefill_mma_instance<false, 256, 32, 4, 1, 2>(PrefillMmaServes::all),
  };
  return kTable;
}

}  // namespace pagoda::cuda
