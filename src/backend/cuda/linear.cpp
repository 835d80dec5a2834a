#include "backend/cuda/linear.h"

#include "backend/cuda/rows.h"
#include "backend/cuda/weight_params.h"
#include "base/checked.h"
#include "base/error.h"

namespace pagoda::cuda {
namespace {

constexpr int64_t kPadding = 8;  // elements that plain rows are padded to

WeightKind kind_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return WeightKind::f32;
    case DType::f16:
      return WeightKind::f16;
    case DType::bf16:
      return WeightKind::bf16;
    case DType::q8_0:
      return WeightKind::q8_0;
    case DType::q4_0:
      return WeightKind::q4_0;
    case DType::q4_1:
      return WeightKind::q4_1;
    case DType::q5_0:
      return WeightKind::q5_0;
    case DType::q5_1:
      return WeightKind::q5_1;
    case DType::q4_k:
      return WeightKind::q4_k;
    case DType::q5_k:
      return WeightKind::q5_k;
    case DType::q6_k:
      return WeightKind::q6_k;
    default:
      break;
  }
  throw Error("model.unsupported_type", "weights of type {} cannot be multiplied", name(dtype));
}

int64_t packed_row_bytes(DType dtype, int64_t cols) {
  kind_of(dtype);
  PG_CHECK(cols % info(dtype).block_elements == 0, "{} columns of {}", cols, name(dtype));
  return bytes_of(dtype, is_quantised(dtype) ? cols : round_up(cols, kPadding));
}

WeightRows weight_rows(const Weight& weight) {
  return {reinterpret_cast<const uint8_t*>(weight.data.data()),
          packed_row_bytes(weight.dtype, weight.cols),
          kind_of(weight.dtype)};
}

}  // namespace

int64_t packed_bytes(DType dtype, int64_t rows, int64_t cols) {
  return rows * packed_row_bytes(dtype, cols);
}

void pack_rows(Weight& weight,
               int64_t first_row,
               ConstTensorView host_rows,
               const LaunchOptions& options) {
  PG_CHECK(host_rows.cols() == weight.cols && host_rows.dtype() == weight.dtype && first_row >= 0 &&
               first_row + host_rows.rows() <= weight.rows,
           "rows {}+{} of {}, {} columns",
           first_row,
           host_rows.rows(),
           weight.rows,
           host_rows.cols());
  if (host_rows.rows() == 0) return;
  const int64_t pitch = packed_row_bytes(weight.dtype, weight.cols);
  CUDA_CHECK(cudaMemcpy2DAsync(weight.data.data() + first_row * pitch,
                               static_cast<size_t>(pitch),
                               host_rows.data(),
                               static_cast<size_t>(host_rows.row_bytes()),
                               static_cast<size_t>(bytes_of(weight.dtype, weight.cols)),
                               static_cast<size_t>(host_rows.rows()),
                               cudaMemcpyHostToDevice,
                               options.stream));
  CUDA_CHECK(cudaStreamSynchronize(options.stream));
}

void embed(const EmbedArgs& args, const LaunchOptions& options) {
  PG_CHECK(args.out.cols() == args.table.cols && args.out.rows() == int64_t(args.ids.size()),
           "out {} x {}",
           args.out.rows(),
           args.out.cols());
  EmbedParams p = {};
  p.table = weight_rows(args.table);
  if (args.positions) {
    p.positions = weight_rows(*args.positions);
    p.position_ids = args.position_ids.data();
  }
  p.ids = args.ids.data();
  p.out = rows_of(args.out);
  p.scale = args.scale;
  p.num_rows = static_cast<int32_t>(args.ids.size());
  p.num_cols = static_cast<int32_t>(args.out.cols());
  launch_embed(p, options);
}

void linear(const LinearArgs& args, const LaunchOptions& options) {
  const int64_t T = args.out.rows(), N = args.out.cols();
  PG_CHECK(args.x.rows() == T, "x {} rows, out {}", args.x.rows(), T);
  PG_CHECK(args.bias.empty() || (args.bias.rows() == 1 && args.bias.cols() == N),
           "bias {}, out {} columns",
           args.bias.cols(),
           N);
  PG_CHECK(args.residual.empty() || (args.residual.rows() == T && args.residual.cols() == N),
           "residual {} x {}, out {} x {}",
           args.residual.rows(),
           args.residual.cols(),
           T,
           N);
  int64_t column = 0;
  for (const Weight* weight : args.weights) {
    PG_CHECK(weight->cols == args.x.cols(), "cols {} x {}", weight->cols, args.x.cols());
    PG_CHECK(column + weight->rows <= args.out.cols(), "{} columns", args.out.cols());
    LinearParams p = {};
    p.weight = weight_rows(*weight);
    p.x = rows_of(args.x);
    p.out = rows_of(args.out.slice_cols(column, weight->rows));
    if (!args.residual.empty())
      p.residual = rows_of(args.residual.slice_cols(column, weight->rows));
    p.bias = args.bias.empty() ? nullptr : args.bias.as<float>() + column;
    p.scale = args.scale;
    p.softcap = args.softcap;
    p.num_rows = static_cast<int32_t>(args.x.rows());
    p.num_cols = static_cast<int32_t>(weight->cols);
    p.num_outputs = static_cast<int32_t>(weight->rows);
    launch_linear(p, options);
    column += weight->rows;
  }
  PG_CHECK(column == args.out.cols(), "{} columns, out has {}", column, args.out.cols());
}

}  // namespace pagoda::cuda
