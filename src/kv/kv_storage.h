// KvStorage: the bytes of the KV cache, one Buffer under MemoryTag::kv, and what must be done to
// them before a step.
//
// The buffer is cut into layers_per_group tensors of [N][KH][head_bytes]; the layer in slot j of
// any group lives in tensor j, so a block id means the same blocks for every group. Owned by the
// executor's side of the engine; runs the zeroing and copies that KvCache decided; chooses nothing.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "kv/layout.h"

namespace pagoda {

class KvStorage {
 public:
  // Takes kv_bytes(layout, num_blocks) from the backend's allocator. Throws
  // Error{"memory.alloc_failed"}. `backend` must outlive it.
  KvStorage(Backend& backend, const KvLayout& layout, int64_t num_blocks);

  std::span<const KvView> layers() const { return layers_; }  // [L], in the model's order
  // Zeroes `zero`, then copies, in every tensor.
  void run(std::span<const int32_t> zero, std::span<const BlockCopy> copies);
  const KvLayout& layout() const { return layout_; }
  int64_t num_blocks() const { return num_blocks_; }

 private:
  Backend& backend_;
  KvLayout layout_;
  int64_t num_blocks_;
  Buffer buffer_;
  std::vector<KvView> layers_;
  std::vector<KvView> tensors_;  // [layers_per_group]
};

}  // namespace pagoda
