// What the decode kernels are told, as plain structs shared by host and device: DecodeItem (a piece
// of work), DecodeRow (a query row), DecodePlanHeader, and DecodeParams (one launch). Written by
// decode_plan.cpp and decode.cpp, read by the kernels.
//
// The arithmetic that makes a row's bits its own: keys in chunks of kChunk by absolute position;
// chunks fold into sections of kSection keys; sections fold in index order. A *part* is what one
// item yields for a row: a whole section, or one chunk where sections are too few to fill the chip.
#pragma once

#include <cstdint>

namespace pagoda::cuda {

constexpr int kChunk = 256;
constexpr int kSection = 2048;
constexpr int kChunksPerSection = kSection / kChunk;

// One part (or all parts, one after the other) of up to `columns / G` rows, for every KV head: head
// fastest.
struct DecodeItem {
  int32_t table_row;              // the sequence whose block table is read
  int32_t first_row;              // index into the plan's rows
  int16_t num_rows;               // rows x heads <= columns of the kernel
  int16_t num_parts;              // more than 1: all that its rows have
  int16_t first_head, num_heads;  // of the KV head's G query heads
  int32_t part;                   // absolute index of the (first) section or chunk
  int32_t key_begin;              // keys outside [key_begin, key_end) are not read
  int32_t key_end;
  int32_t fresh;  // keys from here on are written by this step
};

struct DecodeRow {
  int32_t token;        // row of q and out
  int32_t position;     // last key it sees; -1: none
  int32_t first_key;    // first key it sees
  int32_t part_offset;  // part p is at part_offset + p of the partials; unused if num_parts is 1
  int32_t first_part;
  int32_t num_parts;  // 1: the decode kernel writes the answer itself
  int32_t unused[2];
};

struct DecodePlanHeader {
  int32_t num_items;
  int32_t num_rows;
  int32_t chunks_per_part;  // 1 or kChunksPerSection
  int32_t num_parts;        // partials in use, for each query head
  int32_t unused[4];
};

struct alignas(8) PartSum {
  float maximum;  // of the scores, in units of log2
  float sum;      // of 2^(score - maximum)
};

struct DecodeParams {
  const DecodePlanHeader* header;
  const DecodeItem* items;
  const DecodeRow* rows;
  const int32_t* block_table;  // [B, max_blocks]
  const uint8_t* kv;           // [N][KH][head_bytes]
  const void* q;               // [T, H * D] bf16 or f16
  void* out;                   // as q
  float* log_sum_exp;          // [T, H] or null
  const float* sinks;          // [H] or null
  const float* k_scales;       // fp8: [KH] or null (1)
  const float* v_scales;
  float* part_out;    // [parts][H][D]
  PartSum* part_sum;  // [parts][H]
  int64_t block_bytes;
  int64_t q_row_bytes;
  int64_t out_row_bytes;
  int64_t sum_row_floats;
  int32_t head_bytes, v_offset, k_scales_offset, v_scales_offset;
  int32_t max_blocks, block_size, piece;  // piece: keys per copy, gcd(S, keys of a slot)
  int32_t kv_heads, group, head_dim;
  int32_t row_bytes, atom_shift;  // of K and of V: kv_layout.h
  int32_t scale_bytes;            // of a token's K, or V
  float score_scale;              // scale x log2 e, or, with a softcap, scale / softcap
  float softcap;                  // softcap x log2 e; 0: none
  int32_t num_teams, kv_is_bf16;
  int32_t team_bytes;  // of shared memory
  int32_t ring_at;     // in shared memory
  int32_t slot_bytes;  // of the ring
  int32_t num_slots;
  int32_t num_flying;  // slots that may be on their way at once
  int32_t q_is_bf16;
  int32_t early;  // loads of keys before `fresh` may start before the previous kernel ends
};

}  // namespace pagoda::cuda
