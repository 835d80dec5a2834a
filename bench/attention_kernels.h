// The ceilings that bench_attention prints beside its lines: a read-only stream, an empty kernel.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace pagoda::cuda {

void launch_read_stream(const std::byte* data, int64_t bytes, uint32_t* sink, cudaStream_t stream);
void launch_empty(cudaStream_t stream);

}  // namespace pagoda::cuda
