#include "base/dequantise.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <vector>

#include "base/half.h"

namespace pagoda {
namespace {

// 512 elements of pseudo-random blocks with plain f16 scales, and what gguf-py's
// gguf.quants.dequantize makes of the same bytes: an FNV-1a hash over the bits of all floats, and
// elements 0, 17, 129 and 511.
struct Golden {
  DType dtype;
  std::vector<int> scale_offsets;  // where a block holds f16 numbers
  uint64_t hash;
  float samples[4];
};
const Golden kGolden[] = {
    {DType::q8_0,
     {0},
     0xd61fde4d8bf80365u,
     {5.99853515625f, -6.598388671875f, 3.5771484375f, -10.4974365234375f}},
    {DType::q4_0,
     {0},
     0x70fb41751d52d725u,
     {0.39990234375f, 0.4998779296875f, -0.298095703125f, -0.199951171875f}},
    {DType::q4_1,
     {0, 2},
     0x975f6cf3fb8e4aa5u,
     {0.6507568359375f, -0.049072265625f, -1.1916255950927734f, 0.0509033203125f}},
    {DType::q5_0,
     {0},
     0xb6d08fba8b111b25u,
     {-1.0997314453125f, -1.0997314453125f, -0.894287109375f, -0.199951171875f}},
    {DType::q5_1,
     {0, 2},
     0x5ffaa250a3d53ee1u,
     {-0.049072265625f, 0.6507568359375f, -0.5954341888427734f, 2.55029296875f}},
    {DType::q4_k,
     {0, 2},
     0xc2c2660510bc2272u,
     {24.0992431640625f, 35.2965087890625f, 47.0390625f, -17.92511749267578f}},
    {DType::q5_k,
     {0, 2},
     0xa502a6698476e14cu,
     {152.8677978515625f, 164.0650634765625f, 23.644775390625f, -49.21002197265625f}},
    {DType::q6_k,
     {208},
     0xe0e8622c5b67429fu,
     {-139.166015625f, -106.4739990234375f, 201.95068359375f, 214.62890625f}},
};

std::vector<uint8_t> golden_bytes(const Golden& row) {
  const uint16_t scales[] = {0x2E66, 0xB0C5, 0x1234};
  std::vector<uint8_t> bytes(bytes_of(row.dtype, 512));
  for (size_t k = 0; k < bytes.size(); k++) bytes[k] = uint8_t(uint32_t(k * 2654435761u) >> 24);
  for (size_t b = 0; b * info(row.dtype).block_bytes < bytes.size(); b++)
    for (size_t j = 0; j < row.scale_offsets.size(); j++)
      std::memcpy(
          &bytes[b * info(row.dtype).block_bytes + row.scale_offsets[j]], &scales[(b + j) % 3], 2);
  return bytes;
}

TEST(Dequantise, equals_gguf_py_bit_for_bit_for_every_block_type) {
  for (const Golden& row : kGolden) {
    const std::vector<uint8_t> bytes = golden_bytes(row);
    std::vector<float> y(512);
    dequantise_row(row.dtype, reinterpret_cast<const std::byte*>(bytes.data()), y);
    uint64_t hash = 0xcbf29ce484222325u;
    for (float v : y) hash = (hash ^ std::bit_cast<uint32_t>(v)) * 0x100000001b3u;
    EXPECT_EQ(hash, row.hash) << name(row.dtype);
    int s = 0;
    for (int i : {0, 17, 129, 511}) EXPECT_EQ(y[i], row.samples[s++]) << name(row.dtype) << i;
  }
}

TEST(Dequantise, the_golden_table_has_every_block_type) {
  for (const DTypeInfo& type : kDTypes) {
    bool found = !is_quantised(type.dtype);
    for (const Golden& row : kGolden) found = found || row.dtype == type.dtype;
    EXPECT_TRUE(found) << type.name;
  }
}

template <typename T>
std::vector<float> dequantised(DType dtype, std::vector<T> values) {
  std::vector<std::byte> bytes(1 + values.size() * sizeof(T));  // unaligned on purpose
  std::memcpy(bytes.data() + 1, values.data(), values.size() * sizeof(T));
  std::vector<float> y(values.size());
  dequantise_row(dtype, bytes.data() + 1, y);
  return y;
}

TEST(Dequantise, plain_types_convert_to_float) {
  using Floats = std::vector<float>;
  EXPECT_EQ(dequantised<float>(DType::f32, {1.5f, -0x1p-149f}), (Floats{1.5f, -0x1p-149f}));
  EXPECT_EQ(dequantised<double>(DType::f64, {0.1, -2}), (Floats{0.1f, -2}));
  EXPECT_EQ(dequantised<uint16_t>(DType::f16, {0x3c00, 0x8001, 0x7bff}),
            (Floats{1, -0x1p-24f, 65504}));
  EXPECT_EQ(dequantised<uint16_t>(DType::bf16, {0x3f80, 0xc000}), (Floats{1, -2}));
  EXPECT_EQ(dequantised<int8_t>(DType::i8, {-128, 127}), (Floats{-128, 127}));
  EXPECT_EQ(dequantised<uint8_t>(DType::u8, {128, 255}), (Floats{128, 255}));
  EXPECT_EQ(dequantised<int16_t>(DType::i16, {-32768}), (Floats{-32768}));
  EXPECT_EQ(dequantised<int32_t>(DType::i32, {-7, 1 << 30}), (Floats{-7, 0x1p30f}));
  EXPECT_EQ(dequantised<int64_t>(DType::i64, {int64_t{1} << 40}), (Floats{0x1p40f}));
}

}  // namespace
}  // namespace pagoda
