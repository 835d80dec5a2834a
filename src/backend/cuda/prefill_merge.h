// The second kernel of prefill attention: folds what the spans of a row's keys gave
// (prefill_params.h), in index order, into its answer and its log-sum-exp, sinks included. The
// caller sizes the launch by the plan's shape, not by the batch, so that a captured graph stays
// right.
#pragma once

#include "backend/cuda/launch.h"
#include "backend/cuda/prefill_params.h"

namespace pagoda::cuda {

struct PrefillMergeParams {
  const PrefillPlanHeader* header;
  const PrefillMerge* merges;
  const float* part_out;    // [parts][H][D]
  const PartSum* part_sum;  // [parts][H]
  const float* sinks;       // [H] or null
  uint8_t* out;             // [T, H, D] bf16 or f16
  float* log_sum_exp;       // [T, H] or null
  int64_t out_row_bytes;
  int64_t sum_row_floats;
  int32_t heads, head_dim;
  int32_t tile_rows;  // of a merge, at most
  int32_t out_is_bf16;
  int32_t max_merges;
  int32_t num_multiprocessors;
};

void launch_prefill_merge(const PrefillMergeParams& params, const LaunchOptions& options);

}  // namespace pagoda::cuda
