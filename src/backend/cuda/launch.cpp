#include "backend/cuda/launch.h"

#include "base/error.h"

namespace pagoda::cuda {

void throw_cuda_error(cudaError_t status, const char* call, const char* file, int line) {
  throw Error("cuda.failed", "{}: {} ({}:{})", call, cudaGetErrorString(status), file, line);
}

void prefer_shared_memory(const void* kernel) {
  CUDA_CHECK(cudaFuncSetAttribute(
      kernel, cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared));
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
  cudaLaunchAttribute attributes[2] = {};
  config.attrs = attributes;
  if (options.overlap_previous) {
    cudaLaunchAttribute& overlap = attributes[config.numAttrs++];
    overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    overlap.val.programmaticStreamSerializationAllowed = 1;
  }
  if (launch.cluster > 1) {
    cudaLaunchAttribute& cluster = attributes[config.numAttrs++];
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim.x = launch.cluster;
    cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
  }
  void* args[] = {params};
  CUDA_CHECK(cudaLaunchKernelExC(&config, kernel, args));
}

}  // namespace pagoda::cuda
