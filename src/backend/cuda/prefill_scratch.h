// Prefill over quantised KV by way of a 16-bit copy: the keys and values that a launch's sequences
// see are converted once, into scratch memory that holds them for one layer at a time, and attended
// there like any 16-bit cache. A pure plan of that copy: blocks of 128 keys of a sequence, each
// with a place in the scratch memory, in an array of fixed shape that is uploaded with the batch.
//
// A row's bits are those it has over a 16-bit cache that holds the quantised cache's values, each
// rounded once to the queries' type.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/cuda/prefill_plan.h"
#include "backend/kv_format.h"

namespace pagoda::cuda {

// What the planned rows see.
std::vector<ScratchBlock> plan_prefill_scratch(const PrefillPlanInput& input);

// Memory: [table | blocks]. Fixed for all batches that it holds for.
struct PrefillScratchShape {
  int32_t max_blocks = 0;         // as planned, at most
  int32_t max_seqs = 0;           // rows of the block table
  int32_t max_keys_per_seq = 0;   // that a row of the block table has room for
  KvDType dtype = KvDType::bf16;  // of the copy: the queries' type
  int32_t kv_heads = 0, head_dim = 0;

  KvFormat format() const { return {dtype, kScratchBlockKeys, head_dim, head_dim}; }
  int32_t table_width() const {
    return static_cast<int32_t>(ceil_div(max_keys_per_seq, kScratchBlockKeys));
  }
  int64_t table_bytes() const {
    return ceil_div(int64_t{max_seqs} * table_width() * 4, 1024) * 1024;
  }
  int64_t num_bytes() const {
    return table_bytes() + int64_t{max_blocks} * kv_heads * format().head_bytes();
  }
  int64_t plan_bytes() const { return int64_t{max_blocks} * int64_t{sizeof(ScratchBlock)}; }
};

// Writes the plan, every byte of `out` (shape.plan_bytes()).
void write_plan(std::span<const ScratchBlock> plan,
                const PrefillScratchShape& shape,
                std::span<std::byte> out);

}  // namespace pagoda::cuda
