#include "base/buffer.h"

#include <sys/mman.h>

#include <cstring>
#include <new>

#include "base/checked.h"
#include "base/error.h"

namespace pagoda {
namespace {

constexpr int64_t kAlignment = 64;
constexpr int64_t kMapFrom = int64_t{4} << 20;
constexpr int64_t kHugePage = int64_t{2} << 20;

// An anonymous mapping whose start lies on a huge page: the surplus on both sides is given back.
std::byte* map_aligned(int64_t bytes) {
  const int64_t room = bytes + kHugePage;
  void* raw = mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED) return nullptr;
  auto* begin = static_cast<std::byte*>(raw);
  const int64_t skip =
      round_up(reinterpret_cast<intptr_t>(begin), kHugePage) - reinterpret_cast<intptr_t>(begin);
  if (skip > 0) munmap(begin, skip);
  if (room - skip - bytes > 0) munmap(begin + skip + bytes, room - skip - bytes);
  madvise(begin + skip, bytes, MADV_HUGEPAGE);
  return begin + skip;
}

int64_t mapped_bytes(int64_t bytes) {
  return round_up(bytes, 4096);
}

}  // namespace

Buffer::~Buffer() {
  if (data_ == nullptr) return;
  allocator_->give(data_, size_);
  allocator_->counts_[static_cast<int>(tag_)].fetch_sub(size_, std::memory_order_relaxed);
}

Buffer Allocator::allocate(int64_t bytes, MemoryTag tag) {
  PG_CHECK(bytes >= 0, "bytes {}", bytes);
  Buffer buffer;
  if (bytes == 0) return buffer;
  buffer.data_ = take(bytes);
  if (buffer.data_ == nullptr)
    throw Error("memory.alloc_failed",
                "cannot allocate {} bytes for {} ({} bytes are allocated already); lower "
                "--max-model-len or "
                "--kv-cache-memory-bytes, or use a smaller model",
                bytes,
                kMemoryTagNames[static_cast<int>(tag)],
                allocated());
  buffer.allocator_ = this;
  buffer.size_ = bytes;
  buffer.tag_ = tag;
  counts_[static_cast<int>(tag)].fetch_add(bytes, std::memory_order_relaxed);
  return buffer;
}

int64_t Allocator::allocated() const {
  int64_t sum = 0;
  for (const auto& count : counts_) sum += count.load(std::memory_order_relaxed);
  return sum;
}

std::byte* HostAllocator::take(int64_t bytes) {
  if (bytes >= kMapFrom) return map_aligned(mapped_bytes(bytes));
  void* data = ::operator new(bytes, std::align_val_t(kAlignment), std::nothrow);
  if (data != nullptr) std::memset(data, 0, bytes);
  return static_cast<std::byte*>(data);
}

void HostAllocator::give(std::byte* data, int64_t bytes) {
  if (bytes >= kMapFrom) {
    munmap(data, mapped_bytes(bytes));
  } else {
    ::operator delete(data, std::align_val_t(kAlignment));
  }
}

}  // namespace pagoda
