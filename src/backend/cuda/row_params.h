// What the kernels of the small row operations are told: see rows.cu, embed.cu, and rows.h for the
// operations.
#pragma once

#include <cstdint>

#include "backend/cuda/launch.h"

namespace pagoda::cuda {

// Rows of numbers in device memory, and how they are stored.
enum class Numbers : int32_t { f32, f16, bf16 };
struct Rows {
  uint8_t* data;  // null: there is none
  int64_t row_bytes;
  Numbers numbers;
};

struct NormParams {
  Rows x, add, out;        // [T, C]; add and out may be null
  const float* post_norm;  // [C] or null
  const float* weight;     // [C] or null
  const float* bias;       // [C] or null
  float epsilon;
  int32_t is_layer_norm, num_rows, num_cols;
};
void launch_norm(const NormParams& params, const LaunchOptions& options);

enum class Function : int32_t { silu, gelu_tanh, gelu_erf, relu };
struct ActivationParams {
  Rows x, out;
  Function function;
  int32_t is_gated, num_rows, num_cols;  // of out
};
void launch_activation(const ActivationParams& params, const LaunchOptions& options);

constexpr int kMaxPairs = 256;
struct AnglesParams {
  float inv_freq[kMaxPairs];
  const int32_t* positions;
  float* out;  // [T, pairs, 2]
  double magnitude;
  int32_t num_rows, num_pairs;
};
void launch_angles(const AnglesParams& params, const LaunchOptions& options);

struct GatherParams {
  const uint8_t* x;
  uint8_t* out;
  const int32_t* rows;
  int64_t x_row_bytes, out_row_bytes;
  int32_t num_rows;
  int32_t row_bytes;  // of what is copied; even
};
void launch_gather(const GatherParams& params, const LaunchOptions& options);

}  // namespace pagoda::cuda
