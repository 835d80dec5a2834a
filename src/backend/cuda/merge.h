// The second kernel of decode attention: joins the partials of rows whose keys were split. Folds in
// index order with decode_fold.cuh, so a row's bits do not show how it was split. The caller sizes
// the launch by the plan's shape, not by the batch, so that a captured graph stays right.
#pragma once

#include "backend/cuda/decode_params.h"
#include "backend/cuda/launch.h"

namespace pagoda::cuda {

constexpr int kFewParts = 8;  // up to here a warp folds a row's parts alone

struct MergeParams {
  const DecodePlanHeader* header;
  const DecodeRow* rows;
  const float* part_out;    // [parts][H][D]
  const PartSum* part_sum;  // [parts][H]
  const float* sinks;       // [H] or null
  const float* v_scales;    // fp8: [KH] or null (1)
  void* out;                // [T, H * D]
  float* log_sum_exp;       // [T, H] or null
  int64_t out_row_bytes;
  int64_t sum_row_floats;
  int32_t num_heads, group, head_dim;
  int32_t out_is_bf16;
  int32_t max_rows;       // rows that the grid covers
  int32_t max_parts;      // of a row
  int32_t max_sections;   // of a row
  bool parts_are_chunks;  // as planned
};

int32_t merge_room(const MergeParams& params);  // shared memory of one block
void launch_merge(const MergeParams& params, const LaunchOptions& options);

}  // namespace pagoda::cuda
