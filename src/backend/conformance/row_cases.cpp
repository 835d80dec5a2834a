// norm, activation, rope_angles, embed, gather_rows.
#include <algorithm>
#include <cmath>

#include "backend/conformance/conformance.h"
#include "backend/weight_dtypes.h"

namespace pagoda::conformance {
namespace {

constexpr int64_t kRows = 64;

enum class Add : uint8_t { none, plain, normed, only };
constexpr std::string_view kAddNames[] = {"", "_add", "_add_normed", "_add_only"};

// [rows, cols]: ordinary rows, and hard ones: huge, tiny, zero, one large element.
std::vector<float> hard_rows(Session& s, int64_t rows, int64_t cols) {
  std::vector<float> values = s.normal_values(rows * cols);
  for (int64_t r = 0; r < rows; r++)
    for (int64_t i = 0; i < cols; i++) {
      float& x = values[r * cols + i];
      if (r % 8 == 1) x *= 1e15f;
      if (r % 8 == 2) x *= 1e-15f;
      if (r % 8 == 3) x = 0;
      if (r % 8 == 4 && i == cols / 2) x = 3e4f;
    }
  return values;
}

void norm_case(Session& s, NormKind kind, Add add, int64_t cols) {
  const float epsilon = 1e-6f;
  Array x = s.array(kRows, cols, hard_rows(s, kRows, cols), Session::Precision::activation);
  Array added = s.activations(kRows, cols);
  Array weight = s.vector(cols, 1, 0.3f), bias = s.vector(cols, 0, 0.3f),
        post = s.vector(cols, 1, 0.3f);
  Array out = s.output(kRows, cols);
  Operation op{.what = "norm", .rows = kRows, .call = {}, .outputs = {}, .tolerance = kNorm};
  // One element may be all of its row, sqrt(cols) of the row's rms, and is rounded some six times.
  op.tolerance.largest = std::max(kNorm.largest, 6 * 0x1p-24 * std::sqrt(double(cols)));
  // x plus something may cancel, and so may an element less its row's mean: in a short row wholly.
  std::vector<double> expected(kRows, cols < 16 ? 1 : 0.1);
  if (add == Add::none)
    for (int64_t r = 2; r < kRows; r += 8) expected[r] = 1e-9;
  if (add != Add::none) op.outputs.emplace_back(&x, expected);
  if (add != Add::only) op.outputs.emplace_back(&out, expected);
  op.call = [&](Backend& backend, Side side, int64_t begin, int64_t end) {
    const auto rows = [&](Array& a) { return a.on(side).slice_rows(begin, end - begin); };
    NormArgs args{.kind = kind, .epsilon = epsilon, .x = rows(x)};
    if (add != Add::none) args.add = rows(added);
    if (add == Add::normed) args.post_norm = post.on(side);
    if (add != Add::only) {
      args.weight = weight.on(side);
      args.out = rows(out);
      if (kind == NormKind::layer) args.bias = bias.on(side);
    }
    backend.norm(args);
  };
  s.check(op);
}

void activation_case(Session& s, Activation function, bool gated, int64_t cols) {
  std::vector<float> values = s.normal_values(kRows * cols * (gated ? 2 : 1), 3.f);
  constexpr float kHard[] = {0.f, -0.f, 1e-20f, -1e-20f, 88.f, -88.f, 104.f, -104.f, 1e4f, -1e4f};
  for (float hard : kHard) values[s.integer(0, int64_t(values.size()) - 1)] = hard;
  Array x = s.array(kRows, gated ? 2 * cols : cols, values, Session::Precision::activation);
  Array out = s.output(kRows, cols);
  s.check({.what = "activation",
           .rows = kRows,
           .call =
               [&](Backend& backend, Side side, int64_t begin, int64_t end) {
                 backend.activation({.function = function,
                                     .x = x.on(side).slice_rows(begin, end - begin),
                                     .out = out.on(side).slice_rows(begin, end - begin)});
               },
           .outputs = {{&out, std::vector<double>(kRows, cols == 1 ? 1.0 : 0.1)}},
           .tolerance = kActivation});
}

void angles_case(Session& s, int64_t pairs, float magnitude) {
  std::vector<int32_t> positions(kRows);
  for (int32_t& p : positions) p = int32_t(s.integer(0, 1 << s.integer(0, 20)));
  positions[0] = 0;
  positions[1] = (1 << 20) - 1;
  IntArray on_both = s.ints(positions);
  std::vector<float> inv_freq(pairs);
  for (int64_t i = 0; i < pairs; i++)
    inv_freq[i] = float(std::pow(1e6, -double(i) / double(pairs)));
  Array out = s.output(kRows, pairs * 2, Session::Precision::f32);
  s.check({.what = "rope_angles",
           .rows = kRows,
           .call =
               [&](Backend& backend, Side side, int64_t begin, int64_t end) {
                 auto* data = out.on(side).row<float>(begin);
                 backend.rope_angles({.positions = on_both.on(side).subspan(begin, end - begin),
                                      .inv_freq = inv_freq,
                                      .magnitude = magnitude,
                                      .out = TensorView(reinterpret_cast<std::byte*>(data),
                                                        DType::f32,
                                                        {end - begin, pairs, 2})});
               },
           .outputs = {&out},
           .tolerance = kAngles});
}

void embed_case(Session& s, DType dtype, bool with_positions) {
  const int64_t vocabulary = 67, cols = 512, context = 33;
  WeightPair table = s.weight(dtype, vocabulary, cols);
  WeightPair positions = s.weight(dtype, context, cols);
  std::vector<int32_t> ids(kRows), at(kRows);
  for (int32_t& id : ids) id = int32_t(s.integer(0, vocabulary - 1));
  for (int32_t& p : at) p = int32_t(s.integer(0, context - 1));
  ids[0] = 0;
  ids[1] = int32_t(vocabulary - 1);
  IntArray ids_on = s.ints(ids), at_on = s.ints(at);
  Array out = s.output(kRows, cols);
  s.check({.what = "embed",
           .rows = kRows,
           .call =
               [&](Backend& backend, Side side, int64_t begin, int64_t end) {
                 EmbedArgs args{.table = table.on(side),
                                .ids = ids_on.on(side).subspan(begin, end - begin),
                                .scale = with_positions ? 1.f : 22.627417f,
                                .out = out.on(side).slice_rows(begin, end - begin)};
                 if (with_positions) {
                   args.positions = &positions.on(side);
                   args.position_ids = at_on.on(side).subspan(begin, end - begin);
                 }
                 backend.embed(args);
               },
           .outputs = {&out},
           .tolerance = kEmbed});
}

void gather_case(Session& s) {
  const int64_t cols = 577;
  Array x = s.activations(kRows, cols);
  std::vector<int32_t> rows(kRows);
  for (int32_t& row : rows) row = int32_t(s.integer(0, kRows - 1));
  IntArray rows_on = s.ints(rows);
  Array out = s.output(kRows, cols);
  s.check({.what = "gather_rows",
           .rows = kRows,
           .call =
               [&](Backend& backend, Side side, int64_t begin, int64_t end) {
                 backend.gather_rows({.x = x.on(side),
                                      .rows = rows_on.on(side).subspan(begin, end - begin),
                                      .out = out.on(side).slice_rows(begin, end - begin)});
               },
           .outputs = {&out},
           .tolerance = kExact});
}

}  // namespace

void add_row_cases(std::vector<Case>& cases) {
  for (const NormKind kind : {NormKind::rms, NormKind::layer})
    for (const Add add : {Add::none, Add::plain, Add::normed, Add::only})
      for (const int64_t cols : {1, 7, 64, 576, 641}) {
        // One element less its like: what is left is rounding, and its norm makes that large.
        if (add == Add::normed && cols == 1) continue;
        cases.push_back({fmt::format("norm_{}{}_{}",
                                     kind == NormKind::rms ? "rms" : "layer",
                                     kAddNames[int(add)],
                                     cols),
                         [=](Session& s) { norm_case(s, kind, add, cols); }});
      }
  // 48 KiB of f32: where a GPU's shared memory has to be asked for.
  cases.push_back(
      {"norm_rms_12288", [](Session& s) { norm_case(s, NormKind::rms, Add::none, 12288); }});
  constexpr std::string_view kFunctions[] = {"silu", "gelu_tanh", "gelu_erf", "relu"};
  for (int f = 0; f < 4; f++)
    for (const bool gated : {false, true})
      for (const int64_t cols : {1, 19, 512})
        cases.push_back(
            {fmt::format("activation_{}{}_{}", kFunctions[f], gated ? "_gated" : "", cols),
             [=](Session& s) { activation_case(s, Activation(f), gated, cols); }});
  for (const int64_t pairs : {1, 16, 48, 128})
    cases.push_back({fmt::format("rope_angles_{}", pairs),
                     [=](Session& s) { angles_case(s, pairs, pairs == 16 ? 1.0707f : 1.f); }});
  for (const DType dtype : kWeightDTypes)
    for (const bool positions : {false, true})
      cases.push_back({fmt::format("embed_{}{}", name(dtype), positions ? "_positions" : ""),
                       [=](Session& s) { embed_case(s, dtype, positions); }});
  cases.push_back({"gather_rows", gather_case});
}

}  // namespace pagoda::conformance
