// prefill_instance<...>(): a row of the table of prefill kernels.
#pragma once

#include "backend/cuda/prefill_instances.h"
#include "backend/cuda/prefill_kernel.cuh"

namespace pagoda::cuda {

enum class MatrixTurns : bool { free, in_order };  // may warpgroups' products interleave?

template <bool kBf16, int kDims, int kKeys, int kWarpgroups, MatrixTurns kTurns>
PrefillInstance prefill_instance() {
  using G = PrefillGeometry<kBf16, kDims, kKeys, kWarpgroups, kTurns == MatrixTurns::in_order>;
  return {reinterpret_cast<const void*>(prefill_kernel<G>),
          kBf16,
          kDims,
          G::kRows,
          G::kKeys,
          G::kThreads,
          G::kSharedBytes,
          G::kAtom};
}

}  // namespace pagoda::cuda
