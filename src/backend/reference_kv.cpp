// The reference's KV store: plain order [S][dim], scales [S] (int8) or [S][groups]{scale, zero}
// (int4), as backend/kv_format.h sizes them.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "backend/reference_ops.h"
#include "base/half.h"

namespace pagoda::reference {
namespace {

// Where one slot's values and scales lie.
struct Place {
  std::byte* data;
  uint16_t* scales;
  int32_t dim;
};

Place place_of(const KvView& kv, int64_t slot, int32_t kv_head, KvPart part) {
  const KvFormat& f = kv.format;
  const int64_t block = slot / f.block_size, row = slot % f.block_size;
  PG_CHECK(slot >= 0 && block < kv.num_blocks, "slot {} of {} blocks", slot, kv.num_blocks);
  const bool is_k = part == KvPart::k;
  const int32_t dim = is_k ? f.k_dim : f.v_dim;
  std::byte* head = kv.head(block, kv_head);
  std::byte* data = head + (is_k ? f.k_offset() : f.v_offset());
  std::byte* scales = head + (is_k ? f.k_scales_offset() : f.v_scales_offset());
  return {data + row * (f.data_bytes(dim) / f.block_size),
          reinterpret_cast<uint16_t*>(scales + row * (f.scale_bytes(dim) / f.block_size)),
          dim};
}

double f16_at(const uint16_t* scales, int32_t i) {
  return double(f16_to_f32(scales[i]));
}

int rounded(double value, double scale, int low, int high) {
  if (scale == 0) return low < 0 ? 0 : low;
  return int(std::clamp(std::nearbyint(value / scale), double(low), double(high)));
}

void store_int8(const Place& place, std::span<const float> values) {
  float largest = 0;
  for (float value : values) largest = std::max(largest, std::abs(value));
  place.scales[0] = f32_to_f16(largest / 127);
  for (int32_t i = 0; i < place.dim; i++)
    place.data[i] = std::byte(rounded(values[i], f16_at(place.scales, 0), -127, 127));
}

void store_int4(const Place& place, std::span<const float> values) {
  for (int32_t begin = 0, group = 0; begin < place.dim; begin += kKvScaleDims, group++) {
    const auto part = values.subspan(begin, std::min(kKvScaleDims, place.dim - begin));
    const auto [low, high] = std::minmax_element(part.begin(), part.end());
    uint16_t* scale_zero = place.scales + 2 * group;
    scale_zero[0] = f32_to_f16((*high - *low) / 15);
    scale_zero[1] = f32_to_f16(*low);
    for (size_t i = 0; i < part.size(); i++) {
      const int n = rounded(double(part[i]) - f16_at(scale_zero, 1), f16_at(scale_zero, 0), 0, 15);
      std::byte& pair = place.data[(begin + i) / 2];  // the even dim in the low half
      pair = i % 2 == 0 ? std::byte(n) : pair | std::byte(n << 4);
    }
  }
}

}  // namespace

uint8_t f32_to_e4m3(float value) {
  const uint8_t sign = std::signbit(value) ? 0x80 : 0;
  const float x = std::abs(value);
  if (std::isnan(value)) return sign | 0x7f;
  if (x == 0) return sign;
  if (x >= 464) return sign | 0x7e;  // 464 lies half-way between 448 and the next, 480
  int exponent;
  std::frexp(x, &exponent);               // x = [0.5, 1) * 2^exponent
  exponent = std::max(exponent - 1, -6);  // subnormals share the smallest exponent
  const float step = std::ldexp(1.f, exponent - 3);
  const int mantissa = int(std::nearbyint(x / step));  // 8 … 16, or below 8 when subnormal
  return sign | uint8_t((exponent + 6) * 8 + mantissa);
}

float e4m3_to_f32(uint8_t bits) {
  const int exponent = (bits >> 3) & 15, mantissa = bits & 7;
  if ((bits & 0x7f) == 0x7f) return std::nanf("");
  const float x = exponent == 0 ? std::ldexp(float(mantissa), -9)
                                : std::ldexp(float(8 + mantissa), exponent - 10);
  return bits & 0x80 ? -x : x;
}

void store_kv(
    const KvView& kv, int64_t slot, int32_t kv_head, KvPart part, std::span<const float> values) {
  const Place place = place_of(kv, slot, kv_head, part);
  PG_CHECK(int32_t(values.size()) == place.dim, "{} values, {} dims", values.size(), place.dim);
  auto* halves = reinterpret_cast<uint16_t*>(place.data);
  switch (kv.format.dtype) {
    case KvDType::f32:
      std::memcpy(place.data, values.data(), values.size_bytes());
      break;
    case KvDType::f16:
      std::transform(values.begin(), values.end(), halves, f32_to_f16);
      break;
    case KvDType::bf16:
      std::transform(values.begin(), values.end(), halves, f32_to_bf16);
      break;
    case KvDType::fp8:
      for (int32_t i = 0; i < place.dim; i++) place.data[i] = std::byte(f32_to_e4m3(values[i]));
      break;
    case KvDType::int8:
      store_int8(place, values);
      break;
    case KvDType::int4:
      store_int4(place, values);
      break;
  }
}

std::vector<double> load_kv(const KvView& kv, int64_t slot, int32_t kv_head, KvPart part) {
  const Place place = place_of(kv, slot, kv_head, part);
  const auto* halves = reinterpret_cast<const uint16_t*>(place.data);
  const auto* bytes = reinterpret_cast<const uint8_t*>(place.data);
  const auto value = [&](int32_t i) -> double {
    switch (kv.format.dtype) {
      case KvDType::f32:
        return reinterpret_cast<const float*>(place.data)[i];
      case KvDType::f16:
        return f16_to_f32(halves[i]);
      case KvDType::bf16:
        return bf16_to_f32(halves[i]);
      case KvDType::fp8:
        return e4m3_to_f32(bytes[i]);
      case KvDType::int8:
        return int8_t(bytes[i]) * f16_at(place.scales, 0);
      case KvDType::int4:
        break;
    }
    const int n = i % 2 == 0 ? bytes[i / 2] & 15 : bytes[i / 2] >> 4;
    const uint16_t* scale_zero = place.scales + 2 * (i / kKvScaleDims);
    return n * f16_at(scale_zero, 0) + f16_at(scale_zero, 1);
  };
  std::vector<double> values(place.dim);
  for (int32_t i = 0; i < place.dim; i++) values[i] = value(i);
  return values;
}

}  // namespace pagoda::reference
