// process_logits: penalties, biases, masks, one kernel each over a list of edits.
//   In: logits [R, V] f32, edits [n]. Out: logits, in place.
//   A thread one edit: one logit, or the 32 of a mask's word.
//   Moves 40 bytes an edit; a few FLOPs.
//   No two edits of a list have one logit: sample.cpp sees to it. That rows and tokens are within
//   the logits is the caller's promise and is not checked.
//   Must equal the reference's process_logits within f32 rounding; an edit touches its logit alone.
#include <cmath>

#include "backend/cuda/ptx.cuh"
#include "backend/cuda/sample_params.h"

namespace pagoda::cuda {
namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads) edit_kernel(const __grid_constant__ EditParams p) {
  pdl_wait();
  pdl_launch_next();
  const int i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= p.num_edits) return;
  const LogitEdit edit = p.edits[i];
  float* row = p.logits + edit.row * p.row_floats;
  switch (p.kind) {
    case EditKind::penalty: {
      const float x = row[edit.at];
      row[edit.at] = (x > 0.f ? x / edit.repetition : x * edit.repetition) - edit.amount;
      return;
    }
    case EditKind::bias:  // a ban is stored: NaN or +inf plus -inf would be NaN
      row[edit.at] = edit.amount == -INFINITY ? -INFINITY : row[edit.at] + edit.amount;
      return;
    case EditKind::mask:
      for (int b = 0; b < 32; b++)
        if (32 * edit.at + b < p.vocabulary && !(edit.allowed >> b & 1))
          row[32 * edit.at + b] = -INFINITY;
  }
}

}  // namespace

void launch_edits(const EditParams& params, const LaunchOptions& options) {
  launch_kernel(
      edit_kernel, {(params.num_edits + kThreads - 1) / kThreads, kThreads, 0}, options, params);
}

}  // namespace pagoda::cuda
