// Which neighbours of a step begin with the same blocks of the cache (a system prompt, the samples
// of one prompt): what a backend may read once for all of them. A pure function of the block
// tables.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/attention_batch.h"

namespace pagoda {

constexpr int32_t kLeastSharedKeys = 256;  // below, reading them once saves nothing

struct TablesOfStep {
  std::span<const int32_t> cu_q_lens;    // [B + 1]
  std::span<const int32_t> kv_lens;      // [B]
  std::span<const int32_t> block_table;  // [B, max_blocks]; -1: given up, or past the end
  int32_t max_blocks = 0;
  int32_t block_size = 0;
};

// Groups of two or more sequences, ascending and disjoint; whole blocks that this step does not
// write.
void find_shared_keys(const TablesOfStep& step, std::vector<SharedKeys>& groups);

}  // namespace pagoda
