#include <cmath>
#include <cstring>

#include "backend/conformance/conformance.h"
#include "base/dequantise.h"
#include "base/half.h"

namespace pagoda::conformance {
namespace {

// The f16 fields of a block (ggml-common.h): byte offsets, -1 where there is none, and the sizes
// that keep elements near 1 and their mean near 0.
struct BlockScales {
  int scale_at, minimum_at;
  float scale, minimum_per_scale;
};

BlockScales block_scales(DType dtype) {
  switch (dtype) {
    case DType::q8_0:
      return {0, -1, 1 / 74.f, 0};
    case DType::q4_0:
      return {0, -1, 1 / 4.6f, 0};
    case DType::q4_1:
      return {0, 2, 1 / 4.6f, -7.5f};
    case DType::q5_0:
      return {0, -1, 1 / 9.2f, 0};
    case DType::q5_1:
      return {0, 2, 1 / 9.2f, -15.5f};
    case DType::q4_k:
      return {0, 2, 1 / 145.f, 7.5f};
    case DType::q5_k:
      return {0, 2, 1 / 290.f, 15.5f};
    case DType::q6_k:
      return {208, -1, 1 / 1365.f, 0};
    default:
      return {-1, -1, 0, 0};
  }
}

void put_half(std::byte* at, float value) {
  const uint16_t half = f32_to_f16(value);
  std::memcpy(at, &half, sizeof half);
}

void fill_plain(DType dtype, std::vector<std::byte>& bytes, const std::vector<float>& values) {
  for (size_t i = 0; i < values.size(); i++) {
    const uint16_t half = dtype == DType::f16 ? f32_to_f16(values[i]) : f32_to_bf16(values[i]);
    if (dtype == DType::f32)
      std::memcpy(&bytes[4 * i], &values[i], 4);
    else
      std::memcpy(&bytes[2 * i], &half, 2);
  }
}

}  // namespace

WeightPair Session::weight(DType dtype, int64_t rows, int64_t cols) {
  std::vector<std::byte> bytes(rows * bytes_of(dtype, cols));
  if (!is_quantised(dtype)) {
    fill_plain(dtype, bytes, normal_values(rows * cols));
  } else {
    for (std::byte& byte : bytes) byte = std::byte(random_());
    const BlockScales scales = block_scales(dtype);
    for (size_t at = 0; at < bytes.size(); at += info(dtype).block_bytes) {
      // Both signs where the format is symmetric; now and then a block of zero scale.
      const bool symmetric = scales.minimum_at < 0;
      const float sign = symmetric && integer(0, 1) == 0 ? -1.f : 1.f;
      const float scale = integer(0, 63) == 0 ? 0.f : sign * scales.scale * uniform(0.5f, 1.5f);
      put_half(&bytes[at + scales.scale_at], scale);
      if (!symmetric)
        put_half(&bytes[at + scales.minimum_at],
                 scale * scales.minimum_per_scale * uniform(0.8f, 1.2f));
    }
  }
  WeightPair pair;
  double squares = 0;
  std::vector<float> row(cols);
  for (int64_t r = 0; r < rows; r++) {
    dequantise_row(dtype, bytes.data() + r * bytes_of(dtype, cols), row);
    for (float value : row) squares += double(value) * double(value);
  }
  pair.rms = std::sqrt(squares / double(rows * cols));
  const ConstTensorView view(bytes.data(), dtype, {rows, cols});
  pair.reference = on(Side::reference).pack(view);
  pair.device = on(Side::device).pack(view);
  if (pair.device.data.size() != on(Side::device).packed_bytes(dtype, rows, cols))
    fail(fmt::format("pack of {} [{}, {}] takes {} bytes, packed_bytes says {}",
                     name(dtype),
                     rows,
                     cols,
                     pair.device.data.size(),
                     on(Side::device).packed_bytes(dtype, rows, cols)));
  return pair;
}

}  // namespace pagoda::conformance
