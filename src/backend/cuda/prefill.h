// Prefill attention on CUDA: for sequences with many new rows (a prompt, or a chunk of one). The
// caller plans a step on the host (prefill_plan.h), uploads the plan with the batch, and launches
// prefill_attention once per layer; nothing here allocates, synchronises or keeps state. Contiguous
// K and V are a cache of blocks in order.
//
// The plan and the block table must have been uploaded before the previous kernel on the stream
// started: they are read before it ends.
#pragma once

#include "backend/cuda/launch.h"
#include "backend/cuda/prefill_plan.h"
#include "backend/op_args.h"

namespace pagoda::cuda {

// What to plan with.
struct PrefillTileSize {
  int32_t rows = 0;
  int32_t keys = 0;
};
// Throws Error{"cuda.unsupported"} if there is no kernel.
PrefillTileSize prefill_tile(KvDType dtype, int32_t head_dim);

struct PrefillLaunch {
  const AttentionArgs& args;
  const std::byte* plan = nullptr;  // device, laid out by prefill_plan_shape()
  PrefillTileSize tile = {};        // as planned
  PrefillMask mask = PrefillMask::causal;
  int32_t* ticket = nullptr;  // device; 0 before the first launch, left 0
  int32_t num_multiprocessors = 132;
  int32_t section_heads = 0;  // for tuning; 0: prefill_section_heads()
  int32_t ranks = 0;          // for tuning: blocks of a cluster; 0: 2 where heads pair up
};

// args.out rows of the planned sequences; q, out and the cache of one type, bf16 or f16. Throws
// Error{"cuda.unsupported"} for what has no kernel (or below sm_90), Error{"cuda.failed"}.
void prefill_attention(const PrefillLaunch& launch, const LaunchOptions& options);

}  // namespace pagoda::cuda
