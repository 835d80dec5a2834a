// PagedCache: one layer's KV cache on both sides, in blocks taken in random order, as an engine
// leaves it: memory that no sequence owns is NaN, what a sequence took was zeroed first.
//
// Storing is held against a reference that stores in the same format (kv_cases); attention against
// one that holds in f32 what the device's cache holds, so that a value on the border between two
// codes, which may fall either way, is no matter of attention's.
#pragma once

#include "backend/conformance/conformance.h"

namespace pagoda::conformance {

class PagedCache {
 public:
  enum class Reference : uint8_t { same_format, as_read_from_device };
  PagedCache(Session& session,
             const KvFormat& format,
             int32_t kv_heads,
             int32_t num_blocks,
             Reference reference = Reference::same_format);

  KvView on(Side side) const;
  const KvFormat& format() const { return format_; }  // of the device
  // `count` fresh blocks.
  std::vector<int32_t> take(int64_t count);
  std::vector<std::byte> device_bytes() const;
  // The reference's slots become what the device's hold (Reference::as_read_from_device).
  void copy_to_reference(std::span<const int32_t> slots);
  // Both sides of `slot`, compared.
  void compare_slot(int64_t slot);

 private:
  Session& session_;
  KvFormat format_, reference_format_;
  int32_t kv_heads_;
  std::vector<int32_t> free_;
  Buffer reference_, device_;
};

}  // namespace pagoda::conformance
