// Where an element of K or V lies inside one (block, KV head) on CUDA: host and device arithmetic,
// known to the kernels that append and attend, to the reader for inspection, and to nobody else.
//
// The rows of K (then those of V) lie in groups of 8 tokens; a group is row_bytes / A atoms of 8
// rows x A bytes, A the largest of 128, 64, 32, 16 that divides row_bytes; inside an atom the
// 16-byte units of a row are XORed with the row, as the A-byte swizzle of wgmma and TMA wants. So a
// block is loaded by plain bulk copies and multiplied as it lies, and 8 rows of one unit never meet
// in a bank. Rows of int4 end in whole units: 80 dims take 48 bytes. int8 is stored + 128; int4
// puts 4 (V) or 8 (K) numbers where one AND and one OR make pairs of f16 of them. Scales: per
// token, f16: int8 {scale}; int4 {scale, zero} per 64 dims.
#pragma once

#include <cstdint>

#if defined(__CUDACC__)
#define PAGODA_HD __host__ __device__
#else
#define PAGODA_HD
#endif

namespace pagoda::cuda {

enum class Format : int32_t { bf16, f16, fp8, int8, int4 };
constexpr int kScaleDims = 64;  // dims that share an int4 scale and zero

PAGODA_HD constexpr int atom_bytes(int row_bytes) {
  return row_bytes % 128 == 0 ? 128 : row_bytes % 64 == 0 ? 64 : row_bytes % 32 == 0 ? 32 : 16;
}
PAGODA_HD constexpr int atom_shift(int row_bytes) {  // its log2
  return row_bytes % 128 == 0 ? 7 : row_bytes % 64 == 0 ? 6 : row_bytes % 32 == 0 ? 5 : 4;
}

// Byte offset of 16-byte unit `unit` of token `row` from the start of K or V.
PAGODA_HD constexpr int unit_offset(int row_bytes, int row, int unit) {
  const int atom = atom_bytes(row_bytes);
  const int units = atom / 16;
  return row / 8 * 8 * row_bytes + unit / units * 8 * atom + row % 8 * atom +
         ((unit % units) ^ (row % 8 * atom / 128)) * 16;
}
// The same where row_bytes, and `shift`, its atom_shift, are known at run time only.
PAGODA_HD constexpr int unit_offset(int row_bytes, int shift, int row, int unit) {
  const int in_group = row % 8 << shift, units_shift = shift - 4;
  return row / 8 * 8 * row_bytes + (unit >> units_shift << (shift + 3)) + in_group +
         (((unit & ((1 << units_shift) - 1)) ^ (in_group >> 7)) << 4);
}

// Byte offset of byte `byte` of the row.
PAGODA_HD constexpr int byte_offset(int row_bytes, int row, int byte) {
  return unit_offset(row_bytes, row, byte / 16) + byte % 16;
}

PAGODA_HD constexpr int int4_row_bytes(int dims) {
  return (dims + 31) / 32 * 16;
}

// int4 K: 8 numbers in 32 bits. Bits 2-5 and 18-21 hold numbers 0 and 1, bits 6-9 and 22-25 numbers
// 2 and 3; a rotation by 8 brings 4 and 5, 6 and 7 to the same places.
PAGODA_HD constexpr uint32_t pack_int4_k(const uint32_t (&n)[8]) {
  return n[0] << 2 | n[1] << 18 | n[2] << 6 | n[3] << 22 | n[4] << 10 | n[5] << 26 | n[6] << 14 |
         n[7] << 30 | n[7] >> 2;
}
PAGODA_HD constexpr uint32_t unpack_int4_k(uint32_t word, int i) {
  return ((word >> (2 + i % 2 * 16 + i / 2 * 4)) | (i == 7 ? word << 2 : 0)) & 15;
}

// int4 V: 4 numbers in 16 bits, number 0 in bits 2-5, 1 in bits 6-9; swapping the two bytes brings
// 2 and 3 there.
PAGODA_HD constexpr uint32_t pack_int4_v(const uint32_t (&n)[4]) {
  return n[0] << 2 | n[1] << 6 | n[2] << 10 | (n[3] << 14 & 0xFFFF) | n[3] >> 2;
}
PAGODA_HD constexpr uint32_t unpack_int4_v(uint32_t half, int i) {
  return ((half >> (2 + 4 * i)) | (i == 3 ? half << 2 : 0)) & 15;
}

}  // namespace pagoda::cuda
