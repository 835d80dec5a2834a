#include <cmath>
#include <cstring>
#include <vector>

#include "backend/reference_ops.h"
#include "base/dequantise.h"

namespace pagoda::reference {
namespace {

std::vector<float> weight_row(const Weight& weight, int64_t row) {
  PG_CHECK(row >= 0 && row < weight.rows, "row {} of {}", row, weight.rows);
  std::vector<float> values(weight.cols);
  dequantise_row(
      weight.dtype, weight.data.data() + row * bytes_of(weight.dtype, weight.cols), values);
  return values;
}

double at(ConstTensorView vector, int64_t i) {
  return vector.as<float>()[i];
}

// RMSNorm (Zhang & Sennrich 2019, eq. 4) or LayerNorm (Ba et al. 2016, eq. 3) of one row.
std::vector<double> normalised(NormKind kind,
                               double epsilon,
                               const std::vector<double>& x,
                               ConstTensorView weight,
                               ConstTensorView bias) {
  double mean = 0, squares = 0;
  if (kind == NormKind::layer) {
    for (double value : x) mean += value;
    mean /= double(x.size());
  }
  for (double value : x) squares += (value - mean) * (value - mean);
  const double scale = 1 / std::sqrt(squares / double(x.size()) + epsilon);
  std::vector<double> out(x.size());
  for (size_t i = 0; i < x.size(); i++) {
    out[i] = (x[i] - mean) * scale;
    if (!weight.empty()) out[i] *= at(weight, i);
    if (!bias.empty()) out[i] += at(bias, i);
  }
  return out;
}

double activated(Activation function, double x) {
  constexpr double kRoot2OverPi = 0.79788456080286535588, kRootHalf = 0.70710678118654752440;
  switch (function) {
    case Activation::silu:
      return x / (1 + std::exp(-x));
    case Activation::gelu_tanh:
      return 0.5 * x * (1 + std::tanh(kRoot2OverPi * (x + 0.044715 * x * x * x)));
    case Activation::gelu_erf:
      return 0.5 * x * (1 + std::erf(x * kRootHalf));
    case Activation::relu:
      return x > 0 ? x : 0;
  }
  return 0;
}

}  // namespace

void embed(const EmbedArgs& args) {
  PG_CHECK(args.out.cols() == args.table.cols && args.out.rows() == int64_t(args.ids.size()),
           "out {} x {}",
           args.out.rows(),
           args.out.cols());
  for (size_t t = 0; t < args.ids.size(); t++) {
    const std::vector<float> row = weight_row(args.table, args.ids[t]);
    std::vector<float> position(row.size());
    if (args.positions) position = weight_row(*args.positions, args.position_ids[t]);
    float* out = args.out.row<float>(t);
    for (size_t i = 0; i < row.size(); i++)
      out[i] = float(double(row[i]) * double(args.scale) + double(position[i]));
  }
}

void norm(const NormArgs& args) {
  const int64_t cols = args.x.cols();
  for (int64_t t = 0; t < args.x.rows(); t++) {
    float* x = args.x.row<float>(t);
    if (!args.add.empty()) {
      const float* row = args.add.row<float>(t);
      std::vector<double> add(row, row + cols);
      if (!args.post_norm.empty())
        add = normalised(args.kind, args.epsilon, add, args.post_norm, {});
      for (int64_t i = 0; i < cols; i++) x[i] = float(double(x[i]) + add[i]);
    }
    if (args.out.empty()) continue;
    const auto y = normalised(
        args.kind, args.epsilon, std::vector<double>(x, x + cols), args.weight, args.bias);
    for (int64_t i = 0; i < cols; i++) args.out.row<float>(t)[i] = float(y[i]);
  }
}

void linear(const LinearArgs& args) {
  int64_t column = 0;
  for (const Weight* weight : args.weights) {
    PG_CHECK(weight->cols == args.x.cols(), "cols {} x {}", weight->cols, args.x.cols());
    for (int64_t r = 0; r < weight->rows; r++, column++) {
      const std::vector<float> w = weight_row(*weight, r);
      for (int64_t t = 0; t < args.x.rows(); t++) {
        const float* x = args.x.row<float>(t);
        double sum = 0;
        for (int64_t i = 0; i < weight->cols; i++) sum += double(x[i]) * double(w[i]);
        if (!args.bias.empty()) sum += at(args.bias, column);
        sum *= args.scale;
        if (args.softcap > 0) sum = args.softcap * std::tanh(sum / args.softcap);
        if (!args.residual.empty()) sum += double(args.residual.row<float>(t)[column]);
        args.out.row<float>(t)[column] = float(sum);
      }
    }
  }
  PG_CHECK(column == args.out.cols(), "{} columns, out has {}", column, args.out.cols());
}

void activation(const ActivationArgs& args) {
  const int64_t cols = args.out.cols();
  const bool gated = args.x.cols() == 2 * cols;
  PG_CHECK(gated || args.x.cols() == cols, "x {} out {}", args.x.cols(), cols);
  for (int64_t t = 0; t < args.out.rows(); t++) {
    const float* x = args.x.row<float>(t);
    for (int64_t i = 0; i < cols; i++) {
      const double y = activated(args.function, x[i]);
      args.out.row<float>(t)[i] = float(gated ? y * double(x[cols + i]) : y);
    }
  }
}

// Su et al. 2021, eq. 34.
void rope_angles(const RopeAnglesArgs& args) {
  for (size_t t = 0; t < args.positions.size(); t++)
    for (size_t i = 0; i < args.inv_freq.size(); i++) {
      const double angle = double(args.positions[t]) * double(args.inv_freq[i]);
      float* out = args.out.as<float>() + (t * args.inv_freq.size() + i) * 2;
      out[0] = float(std::cos(angle) * double(args.magnitude));
      out[1] = float(std::sin(angle) * double(args.magnitude));
    }
}

void gather_rows(const GatherRowsArgs& args) {
  for (size_t i = 0; i < args.rows.size(); i++)
    std::memcpy(args.out.row<float>(i),
                args.x.row<float>(args.rows[i]),
                bytes_of(args.x.dtype(), args.x.cols()));
}

}  // namespace pagoda::reference
