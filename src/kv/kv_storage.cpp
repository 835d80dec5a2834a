#include "kv/kv_storage.h"

#include "base/error.h"

namespace pagoda {

namespace {
constexpr int64_t kAlignment = 64;  // that KvView::base promises
}  // namespace

KvStorage::KvStorage(Backend& backend, const KvLayout& layout, int64_t num_blocks)
    : backend_(backend),
      layout_(layout),
      num_blocks_(num_blocks),
      buffer_(backend.allocator().allocate(kv_bytes(layout, num_blocks), MemoryTag::kv)) {
  const int64_t tensor_bytes = num_blocks * layout_.layer_block_bytes();
  PG_CHECK(layout_.layer_block_bytes() % kAlignment == 0, "{}", layout_.layer_block_bytes());
  const auto view = [&](int32_t group, int32_t slot) {
    return KvView{.base = buffer_.data() + slot * tensor_bytes,
                  .num_blocks = num_blocks,
                  .kv_heads = layout_.groups[group].spec.kv_heads,
                  .format = layout_.format(group)};
  };
  for (const KvLayerPlace& place : layout_.layers) layers_.push_back(view(place.group, place.slot));
  for (int32_t slot = 0; slot < layout_.layers_per_group; slot++) tensors_.push_back(view(0, slot));
}

void KvStorage::run(std::span<const int32_t> zero, std::span<const BlockCopy> copies) {
  if (!zero.empty()) backend_.zero_blocks(tensors_, zero);
  if (!copies.empty()) backend_.copy_blocks(tensors_, copies);
}

}  // namespace pagoda
