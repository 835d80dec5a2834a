// Products of activations with packed weights (pack.h), split over the backend's threads.
//
// Rows are rounded once per call to what each weight's type is multiplied with (int8 blocks of 32
// with an f32 scale for quantised weights, bf16 for bf16 where the machine multiplies it), then
// every thread takes a contiguous share of the panels of all weights. With few rows each thread
// rounds them for itself, which saves a barrier.
#pragma once

#include "backend/cpu/context.h"
#include "backend/cpu/pack.h"

namespace pagoda::cpu {

int64_t linear_scratch_bytes(const WorkspaceShape& shape, int num_threads);
void linear(Context& context, const LinearArgs& args);

}  // namespace pagoda::cpu
