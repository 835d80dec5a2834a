// Prefill kernels by mma.sync for head sizes up to 256. Over quantised KV the codes leave room for
// one block on a multiprocessor, and none on devices with 99 KB a block: those take a 16-bit copy
// (prefill_scratch.h), which is faster everywhere.
#include "backend/cuda/prefill_mma_instances.cuh"

namespace pagoda::cuda {

std::span<const PrefillMmaInstance> prefill_mma_hd256_instances() {
  static const PrefillMmaInstance kTable[] = {
      prefill_mma_instance<true, 256, 64, 4, 1, 2>(PrefillMmaServes::plain),
      prefill_mma_instance<false, 256, 64, 4, 1, 2>(PrefillMmaServes::all),
  };
  return kTable;
}

}  // namespace pagoda::cuda
