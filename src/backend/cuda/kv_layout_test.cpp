#include "backend/cuda/kv_layout.h"

#include <gtest/gtest.h>

#include <set>

#include "backend/kv_format.h"

namespace pagoda::cuda {
namespace {

TEST(KvLayout, every_unit_of_a_block_has_its_own_place) {
  for (int row_bytes : {32, 48, 64, 80, 96, 128, 160, 192, 256, 384, 512}) {
    std::set<int> places;
    for (int row = 0; row < 64; row++)
      for (int unit = 0; unit < row_bytes / 16; unit++) {
        const int at = unit_offset(row_bytes, row, unit);
        EXPECT_EQ(at % 16, 0);
        EXPECT_EQ(at, unit_offset(row_bytes, atom_shift(row_bytes), row, unit));
        EXPECT_TRUE(at >= 0 && at < 64 * row_bytes);
        EXPECT_TRUE(places.insert(at).second) << row_bytes << " " << row << " " << unit;
      }
  }
}

TEST(KvLayout, eight_rows_of_a_unit_meet_all_banks_once) {
  for (int row_bytes : {32, 48, 64, 80, 96, 128, 160, 192, 256, 384, 512})
    for (int unit = 0; unit < row_bytes / 16; unit++) {
      std::set<int> banks;
      for (int row = 0; row < 8; row++) banks.insert(unit_offset(row_bytes, row, unit) % 128);
      EXPECT_EQ(banks.size(), 8u) << row_bytes << " " << unit;
    }
}

TEST(KvLayout, rows_of_eight_tokens_are_contiguous) {
  for (int row_bytes : {64, 80, 256}) EXPECT_EQ(unit_offset(row_bytes, 8, 0), 8 * row_bytes);
}

TEST(KvLayout, rows_of_int4_fill_whole_units) {
  for (int dims : {64, 80, 96, 128, 192, 256}) {
    EXPECT_EQ(int4_row_bytes(dims), (KvFormat{KvDType::int4, 16, dims, dims}.row_bytes(dims)));
    EXPECT_GE(int4_row_bytes(dims) * 2, dims);
    EXPECT_EQ(int4_row_bytes(dims) % 16, 0);
  }
  EXPECT_EQ(int4_row_bytes(80), 48);
}

TEST(KvLayout, int4_numbers_come_back) {
  for (uint32_t seed = 0; seed < 500; seed++) {
    uint32_t k[8], v[4];
    for (int i = 0; i < 8; i++) k[i] = (seed * 2654435761u >> (3 * i)) & 15;
    for (int i = 0; i < 4; i++) v[i] = k[7 - i];
    for (int i = 0; i < 8; i++) EXPECT_EQ(unpack_int4_k(pack_int4_k(k), i), k[i]);
    for (int i = 0; i < 4; i++) EXPECT_EQ(unpack_int4_v(pack_int4_v(v), i), v[i]);
    EXPECT_LT(pack_int4_v(v), 65536u);
  }
}

}  // namespace
}  // namespace pagoda::cuda
