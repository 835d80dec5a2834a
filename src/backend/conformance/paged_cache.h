// PagedCache: one layer's KV cache on both sides, in blocks taken in random order, as an engine
// leaves it: memory that no sequence owns is NaN, what a sequence took was zeroed first.
#pragma once

#include "backend/conformance/conformance.h"

namespace pagoda::conformance {

class PagedCache {
 public:
  PagedCache(Session& session, const KvFormat& format, int32_t kv_heads, int32_t num_blocks);

  KvView on(Side side) const;
  const KvFormat& format() const { return format_; }
  // `count` fresh blocks.
  std::vector<int32_t> take(int64_t count);
  std::vector<std::byte> device_bytes() const;
  // Both sides of `slot`, compared.
  void compare_slot(int64_t slot);

 private:
  Session& session_;
  KvFormat format_;
  int32_t kv_heads_;
  std::vector<int32_t> free_;
  Buffer reference_, device_;
};

}  // namespace pagoda::conformance
