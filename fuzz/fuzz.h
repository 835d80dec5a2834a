// What fuzz targets share: FUZZ_CHECK stops with a message when a property does not hold (libFuzzer
// keeps the input), AllocationPeak measures how much heap a stretch of code needed at most.
#pragma once

#include <sanitizer/allocator_interface.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#define FUZZ_CHECK(condition)                                                                      \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      std::fprintf(stderr, "property does not hold: %s:%d: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                                \
    }                                                                                              \
  } while (false)

namespace pagoda {

// Peak of the heap since construction, in bytes. One at a time, one thread.
class AllocationPeak {
 public:
  AllocationPeak() {
    static const int installed = __sanitizer_install_malloc_and_free_hooks(on_malloc, on_free);
    (void)installed;
    live() = peak() = 0;
  }
  int64_t bytes() const { return peak(); }

 private:
  static int64_t& live() {
    static int64_t bytes = 0;
    return bytes;
  }
  static int64_t& peak() {
    static int64_t bytes = 0;
    return bytes;
  }
  static void on_malloc(const volatile void*, size_t size) {
    live() += static_cast<int64_t>(size);
    if (live() > peak()) peak() = live();
  }
  static void on_free(const volatile void* p) {
    if (p != nullptr)
      live() -= static_cast<int64_t>(__sanitizer_get_allocated_size(const_cast<const void*>(p)));
  }
};

}  // namespace pagoda
