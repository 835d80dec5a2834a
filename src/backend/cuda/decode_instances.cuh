// instance<format, dims>() and wide_instance<dims>(): rows of the tables of decode kernels.
#pragma once

#include "backend/cuda/decode_instances.h"
#include "backend/cuda/decode_kernel.cuh"

namespace pagoda::cuda {

template <class G, int kT>
DecodeInstance instance_of() {
  using T = Team<G, kT>;
  return {reinterpret_cast<const void*>(decode_kernel<G, kT>),
          G::kDims,
          T::kMaxTeams,
          T::kColumns,
          T::kRowAt,
          T::kRowBytes,
          G::kSlotKeys,
          T::kBlocks,
          T::kBlocksOfTeams};
}
template <Format kFormat, int kDims>
DecodeInstance instance() {
  return instance_of<Geometry<kFormat, kDims>, 1>();
}
template <int kDims>
DecodeInstance wide_instance() {
  return instance_of<Geometry<Format::bf16, kDims>, 2>();
}

}  // namespace pagoda::cuda
