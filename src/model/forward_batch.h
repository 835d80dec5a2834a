// ForwardBatch: one step's work, flat. T tokens of B sequences, each sequence's rows side by side,
// in the order of the sequences. Spans lie in backend memory, are built by the engine's
// BatchBuilder and live until the step is done.
#pragma once

#include <cstdint>
#include <span>

#include "backend/op_args.h"

namespace pagoda {

// What the layers of one KV group share (docs/architecture.md: layer groups).
struct GroupBatch {
  std::span<const int32_t> slot_mapping;  // [T] where each new token's K and V go
  AttentionBatch attention;               // lengths and this group's block table
};

struct ForwardBatch {
  std::span<const int32_t> token_ids;  // [T]
  std::span<const int32_t> positions;  // [T]
  std::span<const GroupBatch> groups;  // host; [groups]
  // host; [L] index into `groups`: kv/layout decides which layers share a group, not the model.
  std::span<const int32_t> group_of_layer;
  AttentionAlgorithm algorithm = AttentionAlgorithm::flash;
};

}  // namespace pagoda
