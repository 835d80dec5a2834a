#include "base/dequantise.h"

#include <cstdint>
#include <cstring>

#include "base/error.h"
#include "base/half.h"

namespace pagoda {
namespace {

template <typename T>
T load(const uint8_t* p) {
  T value;
  std::memcpy(&value, p, sizeof(T));
  return value;
}

float load_f16(const uint8_t* p) {
  return f16_to_f32(load<uint16_t>(p));
}

template <typename T>
void convert(const uint8_t* in, std::span<float> out) {
  for (size_t i = 0; i < out.size(); i++) out[i] = static_cast<float>(load<T>(in + i * sizeof(T)));
}

// The 32-element blocks: element i's low nibble is in byte i, element i + 16's high nibble too.

// f16 d; int8 q[32]
void q8_0_block(const uint8_t* b, float* y) {
  const float d = load_f16(b);
  for (int i = 0; i < 32; i++) y[i] = d * static_cast<float>(static_cast<int8_t>(b[2 + i]));
}

// f16 d; u4 q[32]
void q4_0_block(const uint8_t* b, float* y) {
  const float d = load_f16(b);
  for (int i = 0; i < 16; i++) {
    y[i] = d * static_cast<float>((b[2 + i] & 15) - 8);
    y[i + 16] = d * static_cast<float>((b[2 + i] >> 4) - 8);
  }
}

// f16 d; f16 min; u4 q[32]
void q4_1_block(const uint8_t* b, float* y) {
  const float d = load_f16(b), min = load_f16(b + 2);
  for (int i = 0; i < 16; i++) {
    y[i] = d * static_cast<float>(b[4 + i] & 15) + min;
    y[i + 16] = d * static_cast<float>(b[4 + i] >> 4) + min;
  }
}

// The fifth bit of element i is bit i of `high`.
int five_bits(int nibble, uint32_t high, int i) {
  return nibble | static_cast<int>((high >> i) & 1) << 4;
}

// f16 d; u32 high; u4 q[32]
void q5_0_block(const uint8_t* b, float* y) {
  const float d = load_f16(b);
  const uint32_t high = load<uint32_t>(b + 2);
  for (int i = 0; i < 16; i++) {
    y[i] = d * static_cast<float>(five_bits(b[6 + i] & 15, high, i) - 16);
    y[i + 16] = d * static_cast<float>(five_bits(b[6 + i] >> 4, high, i + 16) - 16);
  }
}

// f16 d; f16 min; u32 high; u4 q[32]
void q5_1_block(const uint8_t* b, float* y) {
  const float d = load_f16(b), min = load_f16(b + 2);
  const uint32_t high = load<uint32_t>(b + 4);
  for (int i = 0; i < 16; i++) {
    y[i] = d * static_cast<float>(five_bits(b[8 + i] & 15, high, i)) + min;
    y[i + 16] = d * static_cast<float>(five_bits(b[8 + i] >> 4, high, i + 16)) + min;
  }
}

// The 256-element blocks of Q4_K and Q5_K: 8 sub-blocks of 32, each with a 6-bit scale and a 6-bit
// minimum packed into 12 bytes.
struct ScaleMin {
  float scale;
  float min;
};
ScaleMin k_scale_min(const uint8_t* packed, int sub) {
  if (sub < 4)
    return {static_cast<float>(packed[sub] & 63), static_cast<float>(packed[sub + 4] & 63)};
  return {static_cast<float>((packed[sub + 4] & 15) | (packed[sub - 4] >> 6) << 4),
          static_cast<float>((packed[sub + 4] >> 4) | (packed[sub] >> 6) << 4)};
}

// Sub-blocks 2j and 2j + 1 are the low and the high nibbles of the j-th 32 bytes of q.
int k_nibble(const uint8_t* q, int sub, int i) {
  const uint8_t byte = q[sub / 2 * 32 + i];
  return sub % 2 == 0 ? byte & 15 : byte >> 4;
}

// f16 d; f16 dmin; u8 scales[12]; u4 q[256]
void q4_k_block(const uint8_t* b, float* y) {
  const float d = load_f16(b), dmin = load_f16(b + 2);
  for (int sub = 0; sub < 8; sub++) {
    const ScaleMin s = k_scale_min(b + 4, sub);
    const float scale = d * s.scale, min = dmin * s.min;
    for (int i = 0; i < 32; i++) *y++ = scale * static_cast<float>(k_nibble(b + 16, sub, i)) - min;
  }
}

// f16 d; f16 dmin; u8 scales[12]; u8 high[32]; u4 q[256]: bit s of high[i] is the fifth bit of
// element i of sub-block s.
void q5_k_block(const uint8_t* b, float* y) {
  const float d = load_f16(b), dmin = load_f16(b + 2);
  for (int sub = 0; sub < 8; sub++) {
    const ScaleMin s = k_scale_min(b + 4, sub);
    const float scale = d * s.scale, min = dmin * s.min;
    for (int i = 0; i < 32; i++)
      *y++ = scale * static_cast<float>(five_bits(k_nibble(b + 48, sub, i), b[16 + i], sub)) - min;
  }
}

// u4 low[256]; u2 high[256]; int8 scales[16]; f16 d: 16 sub-blocks of 16. Each half of 128 elements
// takes 64 bytes of low (elements 0..63 the low nibbles, 64..127 the high ones) and 32 of high
// (element 32k + i: bits 2k and 2k + 1 of byte i).
void q6_k_block(const uint8_t* b, float* y) {
  const float d = load_f16(b + 208);
  for (int e = 0; e < 256; e++) {
    const int half = e / 128, in_half = e % 128, quarter = in_half / 32, i = in_half % 32;
    const uint8_t low_byte = b[half * 64 + in_half % 64], high_byte = b[128 + half * 32 + i];
    const int low = quarter < 2 ? low_byte & 15 : low_byte >> 4;
    const int q = (low | ((high_byte >> (2 * quarter)) & 3) << 4) - 32;
    const float scale = d * static_cast<float>(static_cast<int8_t>(b[192 + e / 16]));
    y[e] = scale * static_cast<float>(q);
  }
}

template <auto kBlock>
void each_block(DType dtype, const uint8_t* in, std::span<float> out) {
  const DTypeInfo& type = info(dtype);
  for (size_t i = 0; i < out.size(); i += type.block_elements, in += type.block_bytes)
    kBlock(in, out.data() + i);
}

}  // namespace

void dequantise_row(DType dtype, const std::byte* row, std::span<float> out) {
  PG_CHECK(out.size() % info(dtype).block_elements == 0, "{} of {}", out.size(), name(dtype));
  const auto* in = reinterpret_cast<const uint8_t*>(row);
  switch (dtype) {
    case DType::f32:
      return convert<float>(in, out);
    case DType::f64:
      return convert<double>(in, out);
    case DType::i8:
      return convert<int8_t>(in, out);
    case DType::u8:
      return convert<uint8_t>(in, out);
    case DType::i16:
      return convert<int16_t>(in, out);
    case DType::i32:
      return convert<int32_t>(in, out);
    case DType::i64:
      return convert<int64_t>(in, out);
    case DType::f16:
      for (size_t i = 0; i < out.size(); i++) out[i] = load_f16(in + 2 * i);
      return;
    case DType::bf16:
      for (size_t i = 0; i < out.size(); i++) out[i] = bf16_to_f32(load<uint16_t>(in + 2 * i));
      return;
    case DType::q8_0:
      return each_block<q8_0_block>(dtype, in, out);
    case DType::q4_0:
      return each_block<q4_0_block>(dtype, in, out);
    case DType::q4_1:
      return each_block<q4_1_block>(dtype, in, out);
    case DType::q5_0:
      return each_block<q5_0_block>(dtype, in, out);
    case DType::q5_1:
      return each_block<q5_1_block>(dtype, in, out);
    case DType::q4_k:
      return each_block<q4_k_block>(dtype, in, out);
    case DType::q5_k:
      return each_block<q5_k_block>(dtype, in, out);
    case DType::q6_k:
      return each_block<q6_k_block>(dtype, in, out);
  }
}

}  // namespace pagoda
