// prefill_mma_instance<...>(): a row of the table of prefill kernels by mma.sync.
#pragma once

#include "backend/cuda/prefill_mma_instances.h"
#include "backend/cuda/prefill_mma_kernel.cuh"

namespace pagoda::cuda {

enum class PrefillMmaServes : uint8_t { plain, all };

template <bool kBf16, int kDims, int kKeys, int kWarps, int kRowTiles, int kBlocks>
PrefillMmaInstance prefill_mma_instance(PrefillMmaServes serves) {
  using G = PrefillMmaGeometry<kBf16, kDims, kKeys, kWarps, kRowTiles, kBlocks>;
  return {reinterpret_cast<const void*>(prefill_mma_kernel<G>),
          kBf16,
          kDims,
          G::kRows,
          G::kKeys,
          G::kThreads,
          serves == PrefillMmaServes::all,
          G::kPlainBytes,
          G::kQuantisedBytes};
}

}  // namespace pagoda::cuda
