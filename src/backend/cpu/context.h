// Context: what an operation of the CPU backend works with. Owned by CpuBackend.
//
// `scratch` is the backend's one workspace buffer (64-byte aligned), free for the operation that
// runs and worthless after it; it has at least what every F_scratch_bytes(shape, threads) asked
// for. An operation takes parts of it with Scratch.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/backend.h"
#include "backend/cpu/kernel_table.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/threads.h"

namespace pagoda::cpu {

struct Context {
  IsaLevel isa;
  KernelTable kernels;
  ThreadPool& threads;
  Allocator& allocator;
  std::byte* scratch = nullptr;
  int64_t scratch_bytes = 0;
};

// Carves the scratch memory of one operation: take<float>(n) gives n elements, 64-byte aligned.
class Scratch {
 public:
  explicit Scratch(const Context& context) : Scratch(context.scratch, context.scratch_bytes) {}
  Scratch(std::byte* data, int64_t bytes) : data_(data), left_(bytes) {}
  static constexpr int64_t bytes_for(int64_t bytes) { return round_up(bytes, 64); }

  template <typename T>
  T* take(int64_t count) {
    const int64_t bytes = bytes_for(count * int64_t{sizeof(T)});
    PG_CHECK(bytes <= left_, "scratch: {} wanted, {} left", bytes, left_);
    T* part = reinterpret_cast<T*>(data_);
    data_ += bytes;
    left_ -= bytes;
    return part;
  }

 private:
  std::byte* data_;
  int64_t left_;
};

// Rows [begin, end) of `count` that `thread` of `threads` works on: near-equal, in order.
struct Range {
  int64_t begin;
  int64_t end;
};
inline Range share(int64_t count, int thread, int threads) {
  return {count * thread / threads, count * (thread + 1) / threads};
}

}  // namespace pagoda::cpu
