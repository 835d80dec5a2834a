// The table of compiled prefill kernels by mma.sync, a file of instances for each kernel size. A
// head size runs in the next larger kernel, padded with zeros in shared memory. Of the instances
// that fit a case the first one that the device has shared memory for is taken.
#pragma once

#include <cstdint>
#include <span>

namespace pagoda::cuda {

struct PrefillMmaInstance {
  const void* kernel;
  bool is_bf16;  // K and V bf16; else any other format
  int32_t max_head_dim;
  int32_t tile_rows;
  int32_t tile_keys;
  int32_t num_threads;
  bool is_for_quantised;  // too; or for 16-bit KV only
  int32_t plain_bytes;    // of shared memory over 16-bit KV
  int32_t quantised_bytes;
};

std::span<const PrefillMmaInstance> prefill_mma_hd64_instances();
std::span<const PrefillMmaInstance> prefill_mma_hd128_instances();
std::span<const PrefillMmaInstance> prefill_mma_hd256_instances();

}  // namespace pagoda::cuda
