// linear: every dtype of weights, odd shapes, several weights side by side, and the epilogues.
#include <cmath>
#include <memory>

#include "backend/conformance/conformance.h"
#include "backend/weight_dtypes.h"

namespace pagoda::conformance {
namespace {

enum class Inputs : uint8_t { normal, outliers, huge };
constexpr std::string_view kInputNames[] = {"", "_outliers", "_huge"};

struct Shape {
  std::string_view name;
  int64_t tokens;
  int64_t cols;
  std::vector<int64_t> rows;  // of each weight
  std::vector<DType> dtypes;  // of each weight
  Inputs inputs = Inputs::normal;
  bool bias = false;
  enum class Residual : uint8_t { none, separate, aliased } residual = Residual::none;
  float softcap = 0, scale = 1;
};

std::vector<float> inputs(Session& s, const Shape& shape) {
  std::vector<float> x = s.normal_values(shape.tokens * shape.cols);
  for (int64_t i = 0; i < int64_t(x.size()); i++) {
    if (shape.inputs == Inputs::outliers && i % 32 == (i / 32) % 32) x[i] = x[i] < 0 ? -30 : 30;
    // Rows of very different sizes, one of zeros.
    if (shape.inputs == Inputs::huge) {
      constexpr float kSizes[] = {1e12f, 1e-12f, 0.f, 1.f};
      x[i] *= kSizes[i / shape.cols % 4];
    }
  }
  return x;
}

void linear_case(Session& s, const Shape& shape) {
  std::vector<WeightPair> weights;
  int64_t out_cols = 0;
  Tolerance tolerance;
  double weight_rms = 1e30;
  for (size_t i = 0; i < shape.rows.size(); i++) {
    weights.push_back(s.weight(shape.dtypes[i], shape.rows[i], shape.cols));
    out_cols += shape.rows[i];
    const Tolerance own = linear_tolerance(shape.dtypes[i]);
    tolerance.relative = std::max(tolerance.relative, own.relative);
    tolerance.largest = std::max(tolerance.largest, own.largest);
    weight_rms = std::min(weight_rms, weights.back().rms);
  }
  tolerance.relative *= of_few(out_cols, shape.cols);
  if (shape.inputs == Inputs::outliers) {
    tolerance.relative *= kOutlierFactor;
    tolerance.largest *= kOutlierFactor;
  }
  Array x = s.array(shape.tokens, shape.cols, inputs(s, shape), Session::Precision::activation);
  Array bias = s.vector(out_cols, 0, 1);
  Array residual = s.activations(shape.tokens, out_cols);
  const bool aliased = shape.residual == Shape::Residual::aliased;
  const auto precision =
      shape.softcap > 0 ? Session::Precision::f32 : Session::Precision::activation;
  Array out =
      aliased ? s.activations(shape.tokens, out_cols) : s.output(shape.tokens, out_cols, precision);
  Operation op{
      .what = "linear", .rows = shape.tokens, .call = {}, .outputs = {}, .tolerance = tolerance};
  std::vector<double> expected;
  for (int64_t t = 0; t < shape.tokens; t++) {
    double squares = 0;
    for (int64_t i = 0; i < shape.cols; i++)
      squares += std::pow(double(x.initial()[t * shape.cols + i]), 2);
    expected.push_back(std::sqrt(squares) * weight_rms * double(shape.scale));
    if (shape.softcap > 0) expected.back() = double(shape.softcap) / 2;
  }
  op.outputs.emplace_back(&out, expected);
  op.call = [&](Backend& backend, Side side, int64_t begin, int64_t end) {
    const auto rows = [&](Array& a) { return a.on(side).slice_rows(begin, end - begin); };
    std::vector<const Weight*> on_side;
    for (const WeightPair& weight : weights) on_side.push_back(&weight.on(side));
    LinearArgs args{.x = rows(x),
                    .weights = on_side,
                    .out = rows(out),
                    .softcap = shape.softcap,
                    .scale = shape.scale};
    if (shape.bias) args.bias = bias.on(side);
    if (aliased) args.residual = rows(out);
    if (shape.residual == Shape::Residual::separate) args.residual = rows(residual);
    backend.linear(args);
  };
  s.check(op);
}

// x and out as slices of wider arrays, as Q in [T, Q | K | V].
void sliced_case(Session& s) {
  const int64_t tokens = 7, cols = 256, rows = 33;
  WeightPair weight = s.weight(DType::q8_0, rows, cols);
  Array x = s.activations(tokens, cols + 64);
  Array out = s.array(
      tokens, rows + 31, s.normal_values(tokens * (rows + 31)), Session::Precision::activation);
  s.check({.what = "linear on slices",
           .rows = tokens,
           .call =
               [&](Backend& backend, Side side, int64_t begin, int64_t end) {
                 const Weight* weights[] = {&weight.on(side)};
                 backend.linear(
                     {.x = x.on(side).slice_rows(begin, end - begin).slice_cols(64, cols),
                      .weights = weights,
                      .out = out.on(side).slice_rows(begin, end - begin).slice_cols(16, rows)});
               },
           .outputs = {&out},
           .tolerance = linear_tolerance(DType::q8_0)});
}

}  // namespace

void add_linear_cases(std::vector<Case>& cases) {
  const auto add = [&](std::string name, Shape shape) {
    cases.push_back({std::move(name), [shape](Session& s) { linear_case(s, shape); }});
  };
  using enum Shape::Residual;
  for (const DType t : kWeightDTypes) {
    const std::string type(name(t));
    for (const int64_t tokens : {1, 2, 3, 6, 7, 8, 13, 64})
      add(fmt::format("linear_{}_{}_tokens", type, tokens),
          {"tokens", tokens, 512, {37}, {t}, Inputs::normal, tokens % 2 == 0});
    for (const int64_t rows : {1, 2, 8, 15, 16, 17, 100})
      add(fmt::format("linear_{}_{}_rows", type, rows), {"rows", 3, 256, {rows}, {t}});
    add("linear_" + type + "_long", {"long", 5, 1536, {48}, {t}, Inputs::normal, false, separate});
    add("linear_" + type + "_residual", {"r", 9, 256, {33}, {t}, Inputs::normal, true, aliased});
    for (const Inputs inputs : {Inputs::outliers, Inputs::huge})
      add(fmt::format("linear_{}{}", type, kInputNames[int(inputs)]),
          {"hard", 8, 512, {40}, {t}, inputs});
    add("linear_" + type + "_softcap",
        {"logits", 4, 256, {301}, {t}, Inputs::normal, false, none, 30.f, 0.5f});
    add("linear_" + type + "_side_by_side", {"qkv", 13, 512, {48, 16, 17}, {t, t, t}});
  }
  for (const int64_t cols : {32, 64, 96, 576, 640}) {
    for (const DType t : {DType::q8_0, DType::q4_0, DType::q4_1, DType::q5_0, DType::q5_1})
      add(fmt::format("linear_{}_{}_cols", name(t), cols), {"cols", 7, cols, {24}, {t}});
  }
  for (const int64_t cols : {1, 7, 31, 100, 577})
    for (const DType t : {DType::f32, DType::f16, DType::bf16})
      add(fmt::format("linear_{}_{}_cols", name(t), cols), {"cols", 7, cols, {24}, {t}});
  add("linear_mixed_types",
      {"qkv",
       13,
       512,
       {40, 24, 24},
       {DType::q4_k, DType::q4_k, DType::q6_k},
       Inputs::normal,
       true});
  add("linear_mixed_kinds", {"mix", 6, 256, {9, 16, 33}, {DType::f32, DType::q8_0, DType::bf16}});
  cases.push_back({"linear_slices", sliced_case});
}

}  // namespace pagoda::conformance
