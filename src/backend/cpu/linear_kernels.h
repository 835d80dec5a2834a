// The kernels of linear for one instruction set: activation rows into the form that a weight's type
// is multiplied with, and the products of a run of panels (panel_format.h) with rows.
//
// Every output is one chain of operations over the columns in order: the same whatever the number
// of rows, panels or threads, because tiles of all heights do the same steps and lanes never mix.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cpu/isa.h"
#include "backend/cpu/panel_format.h"

namespace pagoda::cpu {

// 32 columns of an activation row for quantised weights: x ~ d * q, d = max|x| / 127.
struct ActivationBlock {
  int8_t q[kBlockCols];
  float d;
  float d_sum;               // d * Σ q: meets minima
  int32_t negative_sum;      // -Σ q: accumulators start at bias times it
  int32_t negative_sum_low;  // of the first 16
};

// out[t, r] = Σ_k x[t, k] w[r, k] (+ bias, * scale, softcap, + residual) for `num_rows` rows r that
// begin with the panel at `panels`.
struct PanelProduct {
  const uint8_t* panels;
  PanelLayout layout;
  int64_t num_rows;
  int64_t cols;
  const uint8_t* x;  // [num_tokens] rows: ActivationBlock, bf16 or f32
  int64_t x_row_bytes;
  int64_t num_tokens;
  float* out;  // row stride out_stride, as residual's is residual_stride, in floats
  int64_t out_stride;
  const float* bias;      // [num_rows], or null
  const float* residual;  // or null; may be out
  int64_t residual_stride;
  float scale;
  float softcap;
};

struct LinearKernels {
  using QuantiseRow = void (*)(const float* x, int64_t cols, ActivationBlock* out);
  using RoundRow = void (*)(const float* x, int64_t cols, uint16_t* out);  // pads to even
  using Multiply = void (*)(const PanelProduct& product);
  static constexpr int kTypes = static_cast<int>(DType::q6_k) + 1;

  int unit_panels = 1;     // panels that a tile covers: split work at multiples of it
  bool bf16_rows = false;  // bf16 weights take bf16 rows; else f32
  QuantiseRow quantise_row = nullptr;
  RoundRow round_row = nullptr;
  Multiply multiply[kTypes] = {};  // by weight dtype
};

namespace v3 {
void fill_linear_rows(LinearKernels& kernels);
void fill_linear_blocks(LinearKernels& kernels);
void fill_linear_floats(LinearKernels& kernels);
}  // namespace v3
namespace v3_avxvnni {
void fill_linear_rows(LinearKernels& kernels);
void fill_linear_blocks(LinearKernels& kernels);
void fill_linear_floats(LinearKernels& kernels);
}  // namespace v3_avxvnni
namespace v4 {
void fill_linear_rows(LinearKernels& kernels);
void fill_linear_blocks(LinearKernels& kernels);
void fill_linear_floats(LinearKernels& kernels);
}  // namespace v4
namespace v4_vnni {
void fill_linear_rows(LinearKernels& kernels);
void fill_linear_blocks(LinearKernels& kernels);
void fill_linear_floats(LinearKernels& kernels);
}  // namespace v4_vnni
namespace v4_bf16 {
void fill_linear_rows(LinearKernels& kernels);
void fill_linear_blocks(LinearKernels& kernels);
void fill_linear_floats(LinearKernels& kernels);
}  // namespace v4_bf16

LinearKernels linear_kernels(IsaLevel level);

}  // namespace pagoda::cpu
