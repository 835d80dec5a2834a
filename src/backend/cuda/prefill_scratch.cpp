#include "backend/cuda/prefill_scratch.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace pagoda::cuda {
namespace {

void add_blocks(const PrefillPlanInput& in, int32_t seq, std::vector<ScratchBlock>& blocks) {
  const int32_t num_rows = in.cu_q_lens[seq + 1] - in.cu_q_lens[seq], kv_len = in.kv_lens[seq];
  if (num_rows == 0) return;
  const int32_t begin = in.window > 0 ? std::max(0, kv_len - num_rows + 1 - in.window) : 0;
  for (int32_t key = begin / kScratchBlockKeys * kScratchBlockKeys; key < kv_len;
       key += kScratchBlockKeys)
    blocks.push_back(
        {seq, key, std::min(kScratchBlockKeys, kv_len - key), std::max(0, begin - key)});
}

}  // namespace

std::vector<ScratchBlock> plan_prefill_scratch(const PrefillPlanInput& in) {
  std::vector<ScratchBlock> blocks;
  if (in.seqs.empty()) {
    for (size_t b = 0; b < in.kv_lens.size(); b++) add_blocks(in, static_cast<int32_t>(b), blocks);
  }
  for (int32_t seq : in.seqs) add_blocks(in, seq, blocks);
  return blocks;
}

void write_plan(std::span<const ScratchBlock> plan,
                const PrefillScratchShape& shape,
                std::span<std::byte> out) {
  PG_CHECK(static_cast<int64_t>(plan.size()) <= shape.max_blocks,
           "{} blocks of {}",
           plan.size(),
           shape.max_blocks);
  PG_CHECK(static_cast<int64_t>(out.size()) == shape.plan_bytes(), "{} bytes", out.size());
  std::memset(out.data(), 0, out.size());
  if (!plan.empty()) std::memcpy(out.data(), plan.data(), plan.size_bytes());
}

}  // namespace pagoda::cuda
