// The one table of tolerances: how far an operation's output may lie from the float64 reference.
//
// relative: ‖out − ref‖ / ‖ref‖ over one row of the output (Euclidean norms).
// largest:  max |out − ref| / rms(ref) over one row.
// A row's norm counts as at least that of its expected size where a case states one (a dot product
// may cancel to nothing). Rows are judged alone, so that a large row hides no small one.
// Where an output is in 16 bits, as a backend's activations may be, each element may be off by half
// a step besides.
#pragma once

#include <algorithm>
#include <cmath>

#include "backend/kv_format.h"
#include "base/dtype.h"

namespace pagoda::conformance {

struct Tolerance {
  double relative = 0;
  double largest = 0;
  DType numbers = DType::f32;  // of the output
};
// Half a step of the numbers of an output near `value`: 2^-8 of it in bf16, 2^-11 in f16, whose
// smallest numbers are 2^-24 apart.
inline double half_step(DType dtype, double value) {
  if (dtype == DType::bf16) return std::abs(value) * 0x1p-8;
  if (dtype == DType::f16) return std::max(std::abs(value) * 0x1p-11, 0x1p-25);
  return 0;
}
// What `value` counts as: f16 ends at 65504, and all that lies beyond, infinite there, is as good
// as the number that would come next.
inline float within_range(DType dtype, float value) {
  return dtype == DType::f16 ? std::clamp(value, -65536.f, 65536.f) : value;
}

// Exact copies and conversions.
constexpr Tolerance kExact = {0, 0};
constexpr Tolerance kEmbed = {1e-7, 1e-6};
constexpr Tolerance kNorm = {5e-7, 2e-5};
constexpr Tolerance kActivation = {1e-6, 2e-5};
constexpr Tolerance kAngles = {1e-7, 5e-7};
constexpr Tolerance kRope = {5e-7, 5e-6};
// Up to 16 roundings of f32, one after the other, where a row is a single logit: penalties and each
// bias of the token.
constexpr Tolerance kLogits = {16 * 0x1p-24, 2e-5};
constexpr double kLogprob = 2e-5;  // absolute

// Quantised weights are multiplied with activations quantised to 8 bits in blocks of 32: uniform
// noise of 1/√12 of a step of max/127, with max near 2 to 2.5 standard deviations, is 0.5 %. Rows
// of f16 and bf16 may be multiplied with activations rounded to bf16: 0.2 %, at most 2^-8.
constexpr Tolerance linear_tolerance(DType dtype) {
  if (dtype == DType::f32) return {2e-6, 1e-5};
  if (dtype == DType::f16 || dtype == DType::bf16) return {5e-3, 3e-2};
  return {1e-2, 6e-2};
}
// The noise of a row of dot products averages out over its outputs and over the elements of each:
// where either are few, its norm strays from the mean by their square roots, taken threefold.
inline double of_few(int64_t outputs, int64_t cols) {
  return 1 + 3 / std::sqrt(2 * double(outputs)) + 3 / std::sqrt(2 * double(cols));
}
// One outlier in each block of activations: 32 elements share a step of max/127.
constexpr double kOutlierFactor = 4;

// Attention may round q, probabilities and their sum's terms to 16 bits, or to 8 with an 8-bit
// cache; what was stored is the same on both sides but for rounding ties.
constexpr Tolerance attention_tolerance(KvDType dtype) {
  switch (dtype) {
    case KvDType::f32:
      return {2e-5, 1e-4};
    case KvDType::f16:
    case KvDType::bf16:
      return {1e-2, 6e-2};
    default:
      return {2e-2, 1e-1};
  }
}

// What read_kv gives back of K: a rotated or scaled value may fall to the other side of a rounding
// tie, one step off. V is stored as it came: exactly, where the format has no scales.
constexpr Tolerance stored_tolerance(KvDType dtype) {
  switch (dtype) {
    case KvDType::f32:
      return {5e-7, 5e-6};
    case KvDType::f16:
      return {5e-4, 1e-2};
    case KvDType::bf16:
      return {1e-3, 4e-2};
    case KvDType::fp8:
      return {2e-2, 5e-1};
    case KvDType::int8:
      return {5e-3, 5e-2};
    case KvDType::int4:
      return {5e-2, 5e-1};
  }
  return {};
}
constexpr Tolerance stored_value_tolerance(KvDType dtype) {
  const bool has_scales = dtype == KvDType::int8 || dtype == KvDType::int4;
  return has_scales ? stored_tolerance(dtype) : kExact;
}

}  // namespace pagoda::conformance
