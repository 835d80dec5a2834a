// Memory of the CUDA backend: the device's Allocator, counted by MemoryTag as the CPU's is, and
// page-locked host memory that uploads are staged in.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/buffer.h"

namespace pagoda::cuda {

// cudaMalloc of one device; aligned to 256. Buffers come zeroed, as the Allocator promises.
class DeviceAllocator final : public Allocator {
 public:
  explicit DeviceAllocator(int32_t device) : device_(device) {}

 private:
  std::byte* take(int64_t bytes) override;
  void give(std::byte* data, int64_t bytes) override;
  int32_t device_;
};

// Page-locked host memory: a copy from it to the device does not wait for the host.
class PinnedBytes {
 public:
  PinnedBytes() = default;
  // Throws Error{"memory.alloc_failed"}.
  explicit PinnedBytes(int64_t bytes);
  PinnedBytes(PinnedBytes&& other) noexcept { swap(other); }
  PinnedBytes& operator=(PinnedBytes&& other) noexcept {
    PinnedBytes(static_cast<PinnedBytes&&>(other)).swap(*this);
    return *this;
  }
  ~PinnedBytes();
  std::byte* data() const { return data_; }
  int64_t size() const { return size_; }
  void swap(PinnedBytes& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
  }

 private:
  std::byte* data_ = nullptr;
  int64_t size_ = 0;
};

}  // namespace pagoda::cuda
