#include "backend/cuda/kv_read.h"

#include <gtest/gtest.h>

#include <cstring>

#include "backend/cuda/kv_layout.h"
#include "base/half.h"

namespace pagoda::cuda {
namespace {

template <typename T>
void put(std::vector<std::byte>& bytes, int64_t at, T value) {
  std::memcpy(&bytes[at], &value, sizeof value);
}

struct Head {
  explicit Head(const KvFormat& its_format)
      : format(its_format), bytes(format.head_bytes()), k(format.k_dim), v(format.v_dim) {}
  void read(int32_t row) { read_kv_row(format, bytes.data(), row, k, v); }
  KvFormat format;
  std::vector<std::byte> bytes;
  std::vector<float> k, v;
};

TEST(KvRead, halves_come_back_from_their_swizzled_places) {
  Head head({KvDType::bf16, 32, 96, 96});
  for (int row = 0; row < 32; row++)
    for (int d = 0; d < 96; d++) {
      put(head.bytes, byte_offset(192, row, 2 * d), f32_to_bf16(float(row + d)));
      put(head.bytes,
          head.format.v_offset() + byte_offset(192, row, 2 * d),
          f32_to_bf16(float(row - d)));
    }
  for (int row = 0; row < 32; row++) {
    head.read(row);
    for (int d = 0; d < 96; d++) {
      EXPECT_EQ(head.k[d], bf16_to_f32(f32_to_bf16(float(row + d))));
      EXPECT_EQ(head.v[d], bf16_to_f32(f32_to_bf16(float(row - d))));
    }
  }
}

TEST(KvRead, bytes_of_fp8_are_e4m3) {
  Head head({KvDType::fp8, 32, 64, 64});
  const std::pair<uint8_t, float> known[] = {
      {0x00, 0.f}, {0x01, 0x1p-9f}, {0x08, 0x1p-6f}, {0x38, 1.f}, {0xC4, -3.f}, {0x7E, 448.f}};
  for (const auto& [bits, value] : known) {
    put(head.bytes, byte_offset(64, 9, 17), bits);
    head.read(9);
    EXPECT_EQ(head.k[17], value);
  }
}

TEST(KvRead, int8_is_stored_with_128_added) {
  Head head({KvDType::int8, 32, 128, 128});
  put(head.bytes, head.format.v_offset() + byte_offset(128, 31, 100), uint8_t(128 - 127));
  put(head.bytes, head.format.v_scales_offset() + 2 * 31, f32_to_f16(0.25f));
  head.read(31);
  EXPECT_EQ(head.v[100], -127 * 0.25f);
}

TEST(KvRead, int4_has_a_scale_and_a_zero_for_each_64_dims) {
  Head head({KvDType::int4, 64, 128, 128});
  const uint32_t k[8] = {1, 2, 3, 4, 5, 6, 7, 15}, v[4] = {9, 8, 7, 15}, w[4] = {0, 1, 2, 3};
  put(head.bytes, byte_offset(64, 5, 36), pack_int4_k(k));  // dims 72 … 79
  put(head.bytes,
      head.format.v_offset() + byte_offset(64, 5, 36),
      pack_int4_v(v) | pack_int4_v(w) << 16);
  for (const int64_t scales : {head.format.k_scales_offset(), head.format.v_scales_offset()}) {
    put(head.bytes, scales + (5 * 2 + 1) * 4, f32_to_f16(0.5f));
    put(head.bytes, scales + (5 * 2 + 1) * 4 + 2, f32_to_f16(-3.f));
  }
  head.read(5);
  for (int i = 0; i < 8; i++) EXPECT_EQ(head.k[72 + i], 0.5f * float(k[i]) - 3);
  for (int i = 0; i < 4; i++) {
    EXPECT_EQ(head.v[72 + i], 0.5f * float(v[i]) - 3);
    EXPECT_EQ(head.v[76 + i], 0.5f * float(w[i]) - 3);
  }
}

}  // namespace
}  // namespace pagoda::cuda
