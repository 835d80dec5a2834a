#include "backend/conformance/paged_cache.h"

namespace pagoda::conformance {

PagedCache::PagedCache(Session& session,
                       const KvFormat& format,
                       int32_t kv_heads,
                       int32_t num_blocks)
    : session_(session), format_(format), kv_heads_(kv_heads), free_(session.shuffled(num_blocks)) {
  const int64_t bytes = num_blocks * kv_heads * format.head_bytes();
  const std::vector<std::byte> nan(bytes, std::byte{0xff});
  for (const Side side : {Side::reference, Side::device}) {
    Buffer& buffer = side == Side::reference ? reference_ : device_;
    buffer = session.on(side).allocator().allocate(bytes, MemoryTag::kv);
    session.on(side).copy_to_device(buffer.data(), nan.data(), bytes);
  }
}

KvView PagedCache::on(Side side) const {
  const Buffer& buffer = side == Side::reference ? reference_ : device_;
  return {.base = buffer.data(),
          .num_blocks = buffer.size() / (kv_heads_ * format_.head_bytes()),
          .kv_heads = kv_heads_,
          .format = format_};
}

std::vector<int32_t> PagedCache::take(int64_t count) {
  PG_CHECK(count <= int64_t(free_.size()), "{} blocks of {}", count, free_.size());
  const std::vector<int32_t> taken(free_.end() - count, free_.end());
  free_.resize(free_.size() - count);
  const IntArray blocks = session_.ints(taken);
  for (const Side side : {Side::reference, Side::device}) {
    const KvView view = on(side);
    session_.on(side).zero_blocks({&view, 1}, blocks.on(side));
  }
  return taken;
}

std::vector<std::byte> PagedCache::device_bytes() const {
  std::vector<std::byte> bytes(device_.size());
  session_.on(Side::device).synchronize();
  session_.on(Side::device).copy_to_host(bytes.data(), device_.data(), device_.size());
  return bytes;
}

void PagedCache::compare_slot(int64_t slot) {
  std::vector<float> k[2], v[2];
  for (const Side side : {Side::reference, Side::device}) {
    const int i = int(side);
    k[i].resize(kv_heads_ * format_.k_dim);
    v[i].resize(kv_heads_ * format_.v_dim);
    session_.on(side).read_kv(on(side), slot, k[i], v[i]);
  }
  const KvDType dtype = format_.dtype;
  session_.compare(fmt::format("K of slot {}", slot), k[1], k[0], stored_tolerance(dtype));
  session_.compare(fmt::format("V of slot {}", slot), v[1], v[0], stored_value_tolerance(dtype));
}

}  // namespace pagoda::conformance
