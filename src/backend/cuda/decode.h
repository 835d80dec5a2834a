// Decode attention on CUDA: for sequences with 1 to 8 new rows (a generated token, drafts). The
// caller plans a step on the host (decode_plan.h), uploads the plan with the batch, and launches
// decode_attention once per layer; nothing here allocates, synchronises or keeps state.
//
// The plan, the block table and the lengths must have been uploaded before the previous kernel on
// the stream started: they are read before it ends.
#pragma once

#include "backend/cuda/decode_plan.h"
#include "backend/cuda/launch.h"
#include "backend/op_args.h"

namespace pagoda::cuda {

// Whose keys and values may be read before the previous kernel on the stream has ended.
enum class EarlyLoads : uint8_t {
  none,
  // The previous kernel writes only this step's tokens (rope_store_kv), all else is long done.
  older_keys,
};

// For tuning and benchmarks; 0: by the plan.
struct DecodeTuning {
  int32_t blocks_per_multiprocessor = 0;
  int32_t num_slots = 0;
  int32_t num_flying = 0;
  int32_t flying_bytes = 0;  // per multiprocessor
};

struct DecodeLaunch {
  const AttentionArgs& args;
  const std::byte* plan = nullptr;  // device, laid out by `shape`
  DecodePlanShape shape = {};
  std::byte* workspace = nullptr;  // device, shape.workspace_bytes(H, D)
  int32_t num_work = 0;            // plan items x KV heads that the grid is sized for; 0: the most
  int32_t max_parts_per_row = 0;   // of the plan; 0: by the block table's width; 1: no merge at all
  int32_t max_sections_per_row = 0;             // of the plan; 0: by the block table's width
  int32_t chunks_per_part = kChunksPerSection;  // of the plan
  int32_t columns = 8;                          // as planned
  int32_t num_multiprocessors = 132;
  EarlyLoads early_loads = EarlyLoads::none;
  const float* k_scales = nullptr;  // fp8: [KH] f32; null: 1
  const float* v_scales = nullptr;
  DecodeTuning tuning = {};
};

// Columns to plan with, what the best kernel for this shape holds; and how many blocks a full
// launch of it has (DecodePlanInput::full_grid).
int32_t decode_columns(KvDType dtype, int32_t head_dim, int32_t group, int32_t max_q_len);
int32_t decode_full_grid(KvDType dtype,
                         int32_t head_dim,
                         int32_t columns,
                         int32_t num_multiprocessors);

// args.out rows of the planned sequences; q bf16 or f16, out the same. Throws
// Error{"cuda.unsupported"} for a head size or block size without a kernel, Error{"cuda.failed"}.
void decode_attention(const DecodeLaunch& launch, const LaunchOptions& options);

}  // namespace pagoda::cuda
