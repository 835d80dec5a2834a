// Weights in the CUDA backend's memory, and what the kernels that read them are told: see embed.cu,
// linear.cu, and linear.h for the operations.
//
// A packed weight is the checkpoint's rows as they are, each at a multiple of row_bytes. Rows of
// plain numbers are padded with zeros to a multiple of 8 elements, so that 8 are one aligned load.
#pragma once

#include <cstdint>

#include "backend/cuda/row_params.h"

namespace pagoda::cuda {

// As DType's rows of these names: base/dequantise.h says what the bytes mean.
enum class WeightKind : int32_t { f32, f16, bf16, q8_0, q4_0, q4_1, q5_0, q5_1, q4_k, q5_k, q6_k };

struct WeightRows {
  const uint8_t* data;
  int64_t row_bytes;
  WeightKind kind;
};

struct EmbedParams {
  WeightRows table, positions;  // positions.data null: none
  const int32_t* ids;           // [T]
  const int32_t* position_ids;  // [T] or null
  Rows out;                     // [T, C]
  float scale;
  int32_t num_rows, num_cols;
};
void launch_embed(const EmbedParams& params, const LaunchOptions& options);

// One weight's columns of a product.
struct LinearParams {
  WeightRows weight;  // [N, C]
  Rows x;             // [T, C]
  Rows out;           // [T, N], its first column is this weight's
  Rows residual;      // as out, or null
  const float* bias;  // [N] or null
  float scale, softcap;
  int32_t num_rows, num_cols, num_outputs;  // T, C, N
};
void launch_linear(const LinearParams& params, const LaunchOptions& options);

}  // namespace pagoda::cuda
