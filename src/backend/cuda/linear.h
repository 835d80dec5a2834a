// Weights on CUDA: packed as the checkpoint has them (weight_params.h), read by embed and linear,
// which dequantise on the way. A row's bits are its own, whatever the number of rows.
#pragma once

#include "backend/cuda/launch.h"
#include "backend/op_args.h"

namespace pagoda::cuda {

// As Backend's. Throws Error{"model.unsupported_type"}.
int64_t packed_bytes(DType dtype, int64_t rows, int64_t cols);
// Returns when the rows have arrived.
void pack_rows(Weight& weight,
               int64_t first_row,
               ConstTensorView host_rows,
               const LaunchOptions& options);

void embed(const EmbedArgs& args, const LaunchOptions& options);
void linear(const LinearArgs& args, const LaunchOptions& options);

}  // namespace pagoda::cuda
