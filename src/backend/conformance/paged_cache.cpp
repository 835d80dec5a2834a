#include "backend/conformance/paged_cache.h"

namespace pagoda::conformance {

PagedCache::PagedCache(Session& session,
                       const KvFormat& format,
                       int32_t kv_heads,
                       int32_t num_blocks,
                       Reference reference)
    : session_(session),
      format_(format),
      reference_format_(format),
      kv_heads_(kv_heads),
      free_(session.shuffled(num_blocks)) {
  if (reference == Reference::as_read_from_device) reference_format_.dtype = KvDType::f32;
  for (const Side side : {Side::reference, Side::device}) {
    const KvFormat& its = side == Side::reference ? reference_format_ : format_;
    Buffer& buffer = side == Side::reference ? reference_ : device_;
    const std::vector<std::byte> nan(num_blocks * kv_heads * its.head_bytes(), std::byte{0xff});
    buffer = session.on(side).allocator().allocate(int64_t(nan.size()), MemoryTag::kv);
    session.on(side).copy_to_device(buffer.data(), nan.data(), int64_t(nan.size()));
  }
}

KvView PagedCache::on(Side side) const {
  const Buffer& buffer = side == Side::reference ? reference_ : device_;
  const KvFormat& its = side == Side::reference ? reference_format_ : format_;
  return {.base = buffer.data(),
          .num_blocks = buffer.size() / (kv_heads_ * its.head_bytes()),
          .kv_heads = kv_heads_,
          .format = its};
}

std::vector<int32_t> PagedCache::take(int64_t count) {
  PG_CHECK(count <= int64_t(free_.size()), "{} blocks of {}", count, free_.size());
  const std::vector<int32_t> taken(free_.end() - count, free_.end());
  free_.resize(free_.size() - count);
  for (const Side side : {Side::reference, Side::device}) {
    const KvView view = on(side);
    session_.on(side).zero_blocks({&view, 1}, taken);
  }
  return taken;
}

std::vector<std::byte> PagedCache::device_bytes() const {
  std::vector<std::byte> bytes(device_.size());
  session_.on(Side::device).synchronize();
  session_.on(Side::device).copy_to_host(bytes.data(), device_.data(), device_.size());
  return bytes;
}

void PagedCache::copy_to_reference(std::span<const int32_t> slots) {
  PG_CHECK(reference_format_.dtype == KvDType::f32, "{}", name(reference_format_.dtype));
  const int64_t k_cols = int64_t{kv_heads_} * format_.k_dim;
  const int64_t v_cols = int64_t{kv_heads_} * format_.v_dim;
  std::vector<float> q(k_cols), k(k_cols), v(v_cols);
  const auto row = [](std::vector<float>& values) {
    return TensorView(
        reinterpret_cast<std::byte*>(values.data()), DType::f32, {1, int64_t(values.size())});
  };
  for (const int32_t slot : slots) {
    session_.on(Side::device).read_kv(on(Side::device), slot, k, v);
    session_.on(Side::reference)
        .rope_store_kv({.q = row(q),
                        .k = row(k),
                        .v = row(v),
                        .num_heads = kv_heads_,
                        .style = RopeStyle::none,
                        .slots = {&slot, 1},
                        .kv = on(Side::reference)});
  }
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
