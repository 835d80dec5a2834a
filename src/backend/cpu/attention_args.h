// What the attention and KV-store kernels are called with: plain structs, resolved by attention.cpp
// and kv_store.cpp from the backend's arguments.
//
// A page is 16 tokens of one (block, KV head): the unit in which the order of elements is defined
// (kv_sources.h). A chunk is 256 keys cut at absolute multiples of 256, the unit of the arithmetic
// (attention_tile.h). Rows are the queries of one (sequence, KV head), packed: row = token * G +
// head within the group. Nothing here owns memory.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <cstddef>

namespace pagoda::cpu {

constexpr int kPageTokens = 16;
constexpr int kChunkTokens = 256;
constexpr int kChunkPages = kChunkTokens / kPageTokens;
constexpr int kMaxHeadDim = 256;
constexpr int kGroupDims = 64;  // dims that share an int4 scale and zero
constexpr int kMaxGroups = kMaxHeadDim / kGroupDims;
constexpr int kMaxTileRows = 12;  // rows that one register tile holds
constexpr int kMaxItemRows = 96;  // rows that share one walk over K and V
constexpr int kReadAhead = 8;     // pages a tile may name past a chunk's end

enum class KvCode : uint8_t { f32, f16, bf16, int8, int4 };

// One layer's cache. Page p of a block lies at v_offset + p * page_bytes and so on, from the start
// of the (block, KV head).
struct KvPages {
  std::byte* base;
  int64_t block_bytes;
  int64_t head_bytes;
  int64_t v_offset;
  int64_t k_scales_offset;
  int64_t v_scales_offset;
  int32_t page_bytes;   // K (or V) data of a page
  int32_t scale_bytes;  // K (or V) scales of a page: int8 f16[16]; int4 [groups][scale, zero][16]
  int32_t block_pages;  // S / 16
  int32_t dim;          // D, a multiple of 16
  int32_t groups;       // scales of a token's K: 0, 1 (int8), ceil(D / 64) (int4)
  KvCode code;
};

struct AttentionJob {
  KvPages kv;
  const float* q;  // [T, H * D]
  int64_t q_stride;
  float* out;  // [T, H * D]
  int64_t out_stride;
  float* log_sum_exp;  // [T, H] or null
  int64_t log_sum_exp_stride;
  const float* sinks;  // [H] or null
  float* partials;     // of items that are split
  int32_t group;       // G
  int32_t window;      // 0: all keys
  float scale;
  float softcap;  // 0: none
};

// whole: all chunks of its rows, result to `out`. state: the first chunks, folded, to partial 0.
// parts: later chunks, each to its own partial.
enum class ItemKind : uint8_t { whole, state, parts };

struct AttentionItem {
  const int32_t* block_table;  // of the sequence
  int32_t kv_head;
  int32_t first_token;     // row in q and out of the sequence's first new token
  int32_t first_position;  // and its position
  int32_t row_begin;
  int32_t num_rows;
  int32_t chunk_begin;
  int32_t chunk_end;
  int32_t split_chunk;  // the chunk whose partial is partial 1
  ItemKind kind;
  int64_t partials;  // offset of partial 0; each has partial_floats(num_rows, D)
};

// A partial: o [rows, D], m [rows], l [rows].
constexpr int64_t partial_floats(int64_t rows, int64_t dim) {
  return (rows * (dim + 2) + 15) / 16 * 16;
}

// One chunk, ready to be read: where its pages lie, where those of the chunk that comes after it
// lie (fetched into the cache meanwhile), and its scales in f32. Pages before first_page repeat the
// first, pages past the end repeat the last: none but visible pages is ever touched.
struct AttentionChunk {
  const std::byte* k[kChunkPages + kReadAhead];
  const std::byte* v[kChunkPages];
  const std::byte* next_k[kChunkPages + kReadAhead];
  const std::byte* next_v[kChunkPages];
  int32_t first_page;
  int32_t end_page;
  int32_t tiles_done;
  alignas(64) float k_scale[kMaxGroups][kChunkTokens];
  alignas(64) float k_zero[kMaxGroups][kChunkTokens];
  alignas(64) float v_scale[kMaxGroups][kChunkTokens];
  alignas(64) float v_zero[kMaxGroups][kChunkTokens];
};

// One thread's memory, every part 64-byte aligned.
struct AttentionScratch {
  uint32_t* q;        // [kMaxItemRows * D]: f32, or pairs of bf16, by tile: [D or D / 2][MR]
  float* o;           // [kMaxItemRows, D]
  float* max;         // [kMaxItemRows]
  float* sum;         // [kMaxItemRows]
  float* q_sum;       // [kMaxItemRows, kMaxGroups]
  int32_t* position;  // [kMaxItemRows]
  float* scores;      // [kMaxTileRows, kChunkTokens]
  float* best;        // [kMaxTileRows, 16]
  uint32_t* weights;  // [groups, kMaxTileRows, kChunkTokens]
  std::byte* wide_k;  // [kChunkTokens, D] f32 or bf16
  std::byte* wide_v;  // [kChunkTokens, D]
  float* row_scores;  // [keys of the longest sequence, in pages]; naive only
  AttentionChunk* chunk;
};

enum class RotaryStyle : uint8_t { interleaved, half_split, none };

struct RotaryJob {
  const float* norm;  // [D] weight of the RMS norm before, or null
  float epsilon;
  int32_t dim;
  int32_t rotary_dim;
  RotaryStyle style;
};

}  // namespace pagoda::cpu
