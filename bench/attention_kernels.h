// The ceilings that bench_attention prints beside its lines: a read-only stream, an empty kernel.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace pagoda::cuda {

void launch_read_stream(const std::byte* data, int64_t bytes, uint32_t* sink, cudaStream_t stream);
void launch_empty(cudaStream_t stream);
// ticks[0]: clocks of a multiprocessor, ticks[1]: nanoseconds, over the same 20 us or so.
void launch_clock(int64_t* ticks, cudaStream_t stream);

}  // namespace pagoda::cuda
