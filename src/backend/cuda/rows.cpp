#include "backend/cuda/rows.h"

#include <algorithm>

#include "backend/cuda/limits.h"
#include "base/error.h"

namespace pagoda::cuda {
namespace {

const float* floats(ConstTensorView view) {
  return view.empty() ? nullptr : view.as<float>();
}

}  // namespace

Rows rows_of(ConstTensorView view) {
  const DType dtype = view.dtype();
  PG_CHECK(dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16, "{}", name(dtype));
  return {reinterpret_cast<uint8_t*>(const_cast<std::byte*>(view.data())),
          view.row_bytes(),
          dtype == DType::f32   ? Numbers::f32
          : dtype == DType::f16 ? Numbers::f16
                                : Numbers::bf16};
}

void norm(const NormArgs& args, const LaunchOptions& options) {
  PG_CHECK(args.x.cols() <= kMaxNormCols, "{} columns of {}", args.x.cols(), kMaxNormCols);
  PG_CHECK(args.out.empty() || args.out.cols() == args.x.cols(), "out {}", args.out.cols());
  PG_CHECK(args.post_norm.empty() || !args.add.empty(), "a norm of nothing");
  NormParams p = {};
  p.x = rows_of(args.x);
  p.add = rows_of(args.add);
  p.out = rows_of(args.out);
  p.post_norm = floats(args.post_norm);
  p.weight = floats(args.weight);
  p.bias = floats(args.bias);
  p.epsilon = args.epsilon;
  p.is_layer_norm = args.kind == NormKind::layer;
  p.num_rows = static_cast<int32_t>(args.x.rows());
  p.num_cols = static_cast<int32_t>(args.x.cols());
  launch_norm(p, options);
}

void activation(const ActivationArgs& args, const LaunchOptions& options) {
  const int64_t cols = args.out.cols();
  const bool is_gated = args.x.cols() == 2 * cols;
  PG_CHECK(is_gated || args.x.cols() == cols, "x {} out {}", args.x.cols(), cols);
  ActivationParams p = {};
  p.x = rows_of(args.x);
  p.out = rows_of(args.out);
  p.function = static_cast<Function>(args.function);
  p.is_gated = is_gated;
  p.num_rows = static_cast<int32_t>(args.out.rows());
  p.num_cols = static_cast<int32_t>(cols);
  launch_activation(p, options);
}
static_assert(static_cast<int>(Activation::silu) == static_cast<int>(Function::silu) &&
              static_cast<int>(Activation::gelu_tanh) == static_cast<int>(Function::gelu_tanh) &&
              static_cast<int>(Activation::gelu_erf) == static_cast<int>(Function::gelu_erf) &&
              static_cast<int>(Activation::relu) == static_cast<int>(Function::relu));

void rope_angles(const RopeAnglesArgs& args, const LaunchOptions& options) {
  if (args.inv_freq.size() > kMaxPairs)
    throw Error("cuda.unsupported",
                "{} rotated dims: up to {} are supported",
                2 * args.inv_freq.size(),
                2 * kMaxPairs);
  AnglesParams p = {};
  std::copy(args.inv_freq.begin(), args.inv_freq.end(), p.inv_freq);
  p.positions = args.positions.data();
  p.out = args.out.as<float>();
  p.magnitude = args.magnitude;
  p.num_rows = static_cast<int32_t>(args.positions.size());
  p.num_pairs = static_cast<int32_t>(args.inv_freq.size());
  if (p.num_pairs > 0) launch_angles(p, options);
}

void gather_rows(const GatherRowsArgs& args, const LaunchOptions& options) {
  GatherParams p = {};
  p.x = reinterpret_cast<const uint8_t*>(args.x.data());
  p.out = reinterpret_cast<uint8_t*>(args.out.data());
  p.rows = args.rows.data();
  p.x_row_bytes = args.x.row_bytes();
  p.out_row_bytes = args.out.row_bytes();
  p.num_rows = static_cast<int32_t>(args.rows.size());
  p.row_bytes = static_cast<int32_t>(bytes_of(args.x.dtype(), args.x.cols()));
  launch_gather(p, options);
}

}  // namespace pagoda::cuda
