// instance<Geometry>(): a row of the table of decode kernels.
#pragma once

#include "backend/cuda/decode_instances.h"
#include "backend/cuda/decode_kernel.cuh"

namespace pagoda::cuda {

template <Format kFormat, int kDims, int kTiles, int kTeams>
DecodeInstance instance() {
  using G = Geometry<kFormat, kDims, kTiles, kTeams>;
  return {reinterpret_cast<const void*>(decode_kernel<G>),
          kDims,
          G::kThreads,
          G::kColumns,
          G::kRingAt,
          G::kSlotBytes,
          G::kMinBlocks,
          G::kWholeRows};
}

}  // namespace pagoda::cuda
