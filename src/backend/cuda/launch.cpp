#include "backend/cuda/launch.h"

#include "base/error.h"

namespace pagoda::cuda {

void throw_cuda_error(cudaError_t status, const char* call, const char* file, int line) {
  throw Error("cuda.failed", "{}: {} ({}:{})", call, cudaGetErrorString(status), file, line);
}

void launch_raw(const void* kernel,
                const Launch& launch,
                const LaunchOptions& options,
                void* params) {
  if (launch.grid == 0) return;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(launch.grid);
  config.blockDim = dim3(launch.block);
  config.dynamicSmemBytes = launch.shared_bytes;
  config.stream = options.stream;
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &attribute;
  config.numAttrs = options.overlap_previous ? 1 : 0;
  void* args[] = {params};
  CUDA_CHECK(cudaLaunchKernelExC(&config, kernel, args));
}

}  // namespace pagoda::cuda
