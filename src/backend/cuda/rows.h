// The waist's small row operations on CUDA: norm, activation, rope_angles, gather_rows. Each is one
// kernel; a row's bits are its own.
#pragma once

#include "backend/cuda/launch.h"
#include "backend/cuda/row_params.h"
#include "backend/op_args.h"

namespace pagoda::cuda {

// How a kernel sees the view: f32, f16 or bf16 numbers; an empty view is none.
Rows rows_of(ConstTensorView view);

void norm(const NormArgs& args, const LaunchOptions& options);
void activation(const ActivationArgs& args, const LaunchOptions& options);
void rope_angles(const RopeAnglesArgs& args, const LaunchOptions& options);
void gather_rows(const GatherRowsArgs& args, const LaunchOptions& options);

}  // namespace pagoda::cuda
