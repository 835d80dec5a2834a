// How a weight lies in memory once packed: panels of 16 consecutive rows, so that one 4-byte load
// of an activation row meets one vector of weights, 16 rows by 4 columns.
//
// A quantised panel is [scales | codes], codes in blocks of 32 columns. A block's codes are
// unsigned and come in 8 groups of 4 columns; byte 4 r + i of group j is row r's column 4 j + i.
// Whole bytes (q8_0, biased by 128) are 8 vectors of 64; narrower codes keep their low nibbles in 4
// vectors, group j low and group j + 4 high, then the fifth bits (a 64-bit mask per group) or the
// sixth and fifth (two vectors; group j in bits 2 (j mod 4) of vector j / 4). The scales are a
// record per block: f16 d[16], for q4_1 and q5_1 f16 min[16]; k-quants have a record per 8 blocks:
// f16 d[16], f16 dmin[16], then per block u8 scale[16] and min[16] (q6_k: no dmin; i8 scales of its
// two halves). A weight is worth scale * (code - bias) + min. Float panels are [cols][16] (bf16:
// [cols / 2][16][2], an odd last column paired with 0). Panels are whole cache lines; rows are
// padded with zeros.
#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace pagoda::cpu {

constexpr int kPanelRows = 16;
constexpr int kBlockCols = 32;

struct PanelFormat {
  int32_t blocks_per_record;  // 0: not quantised
  int32_t head_bytes;         // d and minimum at the start of a scale record
  int32_t sub_bytes;          // scales of each block in it
  int32_t code_bytes;         // of a block of 16 rows
  int32_t code_bits;
  int32_t bias;
  bool has_min;
};

constexpr PanelFormat panel_format(DType dtype) {
  switch (dtype) {
    case DType::q8_0:
      return {1, 32, 0, 512, 8, 128, false};
    case DType::q4_0:
      return {1, 32, 0, 256, 4, 8, false};
    case DType::q4_1:
      return {1, 64, 0, 256, 4, 0, true};
    case DType::q5_0:
      return {1, 32, 0, 320, 5, 16, false};
    case DType::q5_1:
      return {1, 64, 0, 320, 5, 0, true};
    case DType::q4_k:
      return {8, 64, 32, 256, 4, 0, true};
    case DType::q5_k:
      return {8, 64, 32, 320, 5, 0, true};
    case DType::q6_k:
      return {8, 32, 32, 384, 6, 32, false};
    default:
      return {};
  }
}

struct PanelLayout {
  int64_t scale_bytes;  // codes begin here
  int64_t panel_bytes;
};

constexpr PanelLayout panel_layout(DType dtype, int64_t cols) {
  constexpr int64_t kLine = 64;
  const PanelFormat f = panel_format(dtype);
  if (f.blocks_per_record == 0) {
    const int64_t padded = dtype == DType::bf16 ? (cols + 1) / 2 * 2 : cols;
    const int64_t bytes = padded * kPanelRows * info(dtype).block_bytes;
    return {0, (bytes + kLine - 1) / kLine * kLine};
  }
  const int64_t blocks = cols / kBlockCols, records = blocks / f.blocks_per_record;
  const int64_t scales = records * (f.head_bytes + f.blocks_per_record * f.sub_bytes);
  const int64_t scale_bytes = (scales + kLine - 1) / kLine * kLine;
  return {scale_bytes, scale_bytes + blocks * f.code_bytes};
}

}  // namespace pagoda::cpu
