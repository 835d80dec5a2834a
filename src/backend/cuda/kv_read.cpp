#include "backend/cuda/kv_read.h"

#include <cstring>

#include "backend/cuda/e4m3.h"
#include "backend/cuda/format.h"
#include "base/half.h"

namespace pagoda::cuda {
namespace {

template <typename T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

float half_at(const std::byte* scales, int64_t i) {
  return f16_to_f32(load<uint16_t>(scales + 2 * i));
}

enum class Part : uint8_t { k, v };

// K or V of one token: where all rows of its (block, head) begin, where their scales do.
struct StoredRow {
  Format format;
  Part part;
  const std::byte* rows;
  const std::byte* scales;
  int32_t num_dims;
  int32_t row;

  template <typename T>
  T at(int32_t row_bytes, int32_t byte) const {
    return load<T>(rows + byte_offset(row_bytes, row, byte));
  }
};

float element(const StoredRow& r, int32_t dim) {
  switch (r.format) {
    case Format::bf16:
      return bf16_to_f32(r.at<uint16_t>(2 * r.num_dims, 2 * dim));
    case Format::f16:
      return f16_to_f32(r.at<uint16_t>(2 * r.num_dims, 2 * dim));
    case Format::fp8:
      return from_e4m3(r.at<uint8_t>(r.num_dims, dim));
    case Format::int8:
      return static_cast<float>(r.at<uint8_t>(r.num_dims, dim) - 128) * half_at(r.scales, r.row);
    case Format::int4:
      break;
  }
  const auto word = r.at<uint32_t>(int4_row_bytes(r.num_dims), dim / 8 * 4);
  const uint32_t n = r.part == Part::v ? unpack_int4_v(word >> (dim % 8 / 4 * 16) & 0xFFFF, dim % 4)
                                       : unpack_int4_k(word, dim % 8);
  const int64_t group = r.row * ceil_div(r.num_dims, kScaleDims) + dim / kScaleDims;
  return static_cast<float>(n) * half_at(r.scales, 2 * group) + half_at(r.scales, 2 * group + 1);
}

}  // namespace

void read_kv_row(const KvFormat& format,
                 const std::byte* head,
                 int32_t row,
                 std::span<float> k,
                 std::span<float> v) {
  const Format stored = cuda_format(format.dtype);
  const StoredRow key = {stored, Part::k, head, head + format.k_scales_offset(), format.k_dim, row};
  const StoredRow value = {stored,
                           Part::v,
                           head + format.v_offset(),
                           head + format.v_scales_offset(),
                           format.v_dim,
                           row};
  for (int32_t i = 0; i < format.k_dim; i++) k[i] = element(key, i);
  for (int32_t i = 0; i < format.v_dim; i++) v[i] = element(value, i);
}

}  // namespace pagoda::cuda
