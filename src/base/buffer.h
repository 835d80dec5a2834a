// Buffer: bytes with an owner and a tag; Allocator: the one place that memory of size comes from.
//
// Every allocation names a MemoryTag and is counted under it, so that what was allocated can be
// compared, tag by tag and to the byte, with what `pagoda plan` printed before anything was loaded.
// A backend has one Allocator; a Buffer gives its bytes back to the Allocator that made it, which
// must outlive it. Counters are atomics: any thread may read them.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

namespace pagoda {

enum class MemoryTag : uint8_t { weights, kv, workspace, logits, vocabulary };
constexpr int kNumMemoryTags = 5;
constexpr std::array<std::string_view, kNumMemoryTags> kMemoryTagNames = {
    "weights", "kv", "workspace", "logits", "vocabulary"};

class Allocator;

class Buffer {
 public:
  Buffer() = default;
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    Buffer(std::move(other)).swap(*this);
    return *this;
  }
  ~Buffer();

  std::byte* data() const { return data_; }
  template <typename T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }
  int64_t size() const { return size_; }
  MemoryTag tag() const { return tag_; }
  void swap(Buffer& other) noexcept {
    std::swap(allocator_, other.allocator_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(tag_, other.tag_);
  }

 private:
  friend class Allocator;
  Allocator* allocator_ = nullptr;
  std::byte* data_ = nullptr;
  int64_t size_ = 0;
  MemoryTag tag_ = MemoryTag::workspace;
};

class Allocator {
 public:
  virtual ~Allocator() = default;
  // `bytes` zeroed bytes, aligned to 64 (to 2 MiB, on huge pages where the system has them, from 4
  // MiB on). Throws Error{"memory.alloc_failed"} with the need and what was asked for before. bytes
  // 0 gives an empty Buffer.
  Buffer allocate(int64_t bytes, MemoryTag tag);
  int64_t allocated(MemoryTag tag) const {
    return counts_[static_cast<int>(tag)].load(std::memory_order_relaxed);
  }
  int64_t allocated() const;

 private:
  friend class Buffer;
  virtual std::byte* take(int64_t bytes) = 0;  // nullptr when there is none
  virtual void give(std::byte* data, int64_t bytes) = 0;
  std::array<std::atomic<int64_t>, kNumMemoryTags> counts_{};
};

// Host memory: anonymous mmap for large sizes, aligned new below.
class HostAllocator final : public Allocator {
 private:
  std::byte* take(int64_t bytes) override;
  void give(std::byte* data, int64_t bytes) override;
};

}  // namespace pagoda
