#include "backend/cuda/device_memory.h"

#include <memory>

#include "backend/cuda/launch.h"
#include "base/error.h"

namespace pagoda::cuda {

std::byte* DeviceAllocator::take(int64_t bytes) {
  CUDA_CHECK(cudaSetDevice(device_));
  void* data = nullptr;
  const cudaError_t status = cudaMalloc(&data, static_cast<size_t>(bytes));
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // it is told by the Allocator, and must not fail the next launch
    return nullptr;
  }
  CUDA_CHECK(status);
  const auto free = [](void* owned) { cudaFree(owned); };
  std::unique_ptr<void, decltype(free)> owner(data, free);
  CUDA_CHECK(cudaMemset(data, 0, static_cast<size_t>(bytes)));
  CUDA_CHECK(cudaStreamSynchronize(nullptr));  // other streams don't wait for this one
  return static_cast<std::byte*>(owner.release());
}

// Waits for the device, so nothing that was enqueued still uses the memory.
void DeviceAllocator::give(std::byte* data, int64_t) {
  cudaSetDevice(device_);
  cudaFree(data);
}

PinnedBytes::PinnedBytes(int64_t bytes) : size_(bytes) {
  void* data = nullptr;
  if (bytes > 0 && cudaMallocHost(&data, static_cast<size_t>(bytes)) != cudaSuccess) {
    cudaGetLastError();
    throw Error("memory.alloc_failed", "cannot lock {} bytes of host memory for uploads", bytes);
  }
  data_ = static_cast<std::byte*>(data);
}

PinnedBytes::~PinnedBytes() {
  cudaFreeHost(data_);
}

}  // namespace pagoda::cuda
