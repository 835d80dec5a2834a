// Launching kernels: grid, block and shared memory in one struct, a stream, and whether the kernel
// may start before the previous one on the stream has ended (programmatic dependent launch: every
// kernel here waits for it itself, with pdl_wait). Each launch is checked; an error of the driver
// is an Error of kind "cuda.failed" that names the call.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace pagoda::cuda {

[[noreturn]] void throw_cuda_error(cudaError_t status,
                                   const char* call,
                                   const char* file,
                                   int line);

#define CUDA_CHECK(call)                                                         \
  do {                                                                           \
    const cudaError_t cuda_status_ = (call);                                     \
    if (cuda_status_ != cudaSuccess)                                             \
      ::pagoda::cuda::throw_cuda_error(cuda_status_, #call, __FILE__, __LINE__); \
  } while (false)

struct LaunchOptions {
  cudaStream_t stream = nullptr;
  bool overlap_previous = true;  // programmatic dependent launch
};

struct Launch {
  int32_t grid = 1;
  int32_t block = 1;
  int32_t shared_bytes = 0;
  int32_t cluster = 1;  // blocks
};

// Blocks of kernels that differ in how a multiprocessor splits its memory cannot share it, and a
// new split waits for it to be idle: small kernels between those that fill shared memory ask for
// the same.
void prefer_shared_memory(const void* kernel);

// `kernel` takes one struct by value.
void launch_raw(const void* kernel,
                const Launch& launch,
                const LaunchOptions& options,
                void* params);

template <typename Params>
void launch_kernel(void (*kernel)(Params),
                   const Launch& launch,
                   const LaunchOptions& options,
                   const Params& params) {
  Params copy = params;
  launch_raw(reinterpret_cast<const void*>(kernel), launch, options, &copy);
}

}  // namespace pagoda::cuda
