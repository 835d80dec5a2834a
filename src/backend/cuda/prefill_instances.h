// The table of compiled prefill kernels, a file of instances for a few head sizes each. The
// width of a key tile is part of a row's arithmetic (prefill_params.h), so it is one for each head
// size and type; a kernel of another tile height with that width would give the same bits.
#pragma once

#include <cstdint>
#include <span>

namespace pagoda::cuda {

struct PrefillInstance {
  const void* kernel;
  bool is_bf16;  // else f16: Q, K, V and out
  int32_t head_dim;
  int32_t tile_rows;
  int32_t tile_keys;
  int32_t num_threads;
  int32_t shared_bytes;
  int32_t atom_bytes;  // of the swizzle of Q in shared memory
};

std::span<const PrefillInstance> prefill_hd64_instances();
std::span<const PrefillInstance> prefill_hd128_instances();
std::span<const PrefillInstance> prefill_hd256_instances();

}  // namespace pagoda::cuda
