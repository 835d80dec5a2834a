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
#include "backend/cuda/prefill_scratch.h"
#include "backend/op_args.h"

namespace pagoda::cuda {

// Which kernels: by wgmma (Hopper, 16-bit KV) where there is one, else by mma.sync (sm_80 and up,
// every KV format); or always by mma.sync. The two differ in a row's bits.
enum class PrefillPath : uint8_t { automatic, mma };

// Memory for a 16-bit copy of quantised KV (prefill_scratch.h). With it prefill runs at the speed
// of 16-bit KV, less the copy; without it codes are converted tile by tile by mma.sync kernels. The
// two differ in a row's bits.
struct PrefillScratch {
  std::byte* memory = nullptr;      // device, shape.num_bytes()
  const std::byte* plan = nullptr;  // device, as write_plan() wrote it
  PrefillScratchShape shape = {};
  bool is_filled = false;  // by the launch before this one, of the same sequences
};

// What to plan with, on the current device.
struct PrefillTileSize {
  int32_t rows = 0;
  int32_t keys = 0;
  int32_t span_tiles = 0;  // 0: every row is attended whole
};
// `dtype`: of the cache, or of its 16-bit copy. Throws Error{"cuda.unsupported"} if there is no
// kernel.
PrefillTileSize prefill_tile(KvDType dtype,
                             int32_t head_dim,
                             PrefillPath path = PrefillPath::automatic);
// Whether there are kernels on the current device that attend in spans.
bool prefill_knows_spans();

struct PrefillLaunch {
  const AttentionArgs& args;
  const std::byte* plan = nullptr;  // device, laid out by `shape`
  PrefillPlanShape shape = {};
  std::byte* workspace = nullptr;  // device, shape.workspace_bytes()
  PrefillTileSize tile = {};       // as planned
  PrefillMask mask = PrefillMask::causal;
  int32_t* ticket = nullptr;  // device; 0 before the first launch, left 0
  int32_t num_multiprocessors = 132;
  const float* k_scales = nullptr;  // fp8: [KH] f32; null: 1
  const float* v_scales = nullptr;
  PrefillScratch scratch = {};                // for quantised KV
  PrefillPath path = PrefillPath::automatic;  // as the tile was asked for
  int32_t section_heads = 0;                  // for tuning; 0: prefill_section_heads()
  int32_t ranks = 0;  // for tuning: blocks of a cluster; 0: 2 where heads pair up
};

// args.out rows of the planned sequences; q and out bf16 or f16, and so the cache if it is of 16
// bits. Throws Error{"cuda.unsupported"} for what has no kernel, Error{"cuda.failed"}.
void prefill_attention(const PrefillLaunch& launch, const LaunchOptions& options);

}  // namespace pagoda::cuda
