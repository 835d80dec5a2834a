// The table of compiled decode kernels, one file of instances per KV format (decode_<format>.cu).
// A kernel is chosen by format, head size and the columns (rows x heads of one KV head) that an
// item should hold; any number of columns works with any kernel, in more items.
#pragma once

#include <cstdint>
#include <span>

namespace pagoda::cuda {

struct DecodeInstance {
  const void* kernel;
  int32_t head_dim;
  int32_t num_threads;
  int32_t columns;
  int32_t fixed_bytes;  // shared memory beside the ring
  int32_t slot_bytes;
  int32_t max_blocks_per_multiprocessor;
  bool whole_rows;  // takes items of several sections
};

std::span<const DecodeInstance> decode_bf16_instances();
std::span<const DecodeInstance> decode_f16_instances();
std::span<const DecodeInstance> decode_fp8_instances();
std::span<const DecodeInstance> decode_int8_instances();
std::span<const DecodeInstance> decode_int4_instances();

}  // namespace pagoda::cuda
