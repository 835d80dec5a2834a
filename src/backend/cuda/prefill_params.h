// What the prefill kernels are told, as plain structs shared by host and device: PrefillTile (a
// tile of query rows of one sequence), PrefillPlanHeader, and PrefillParams (one launch). Written
// by prefill_plan.cpp and prefill.cpp, read by the kernels.
//
// The arithmetic that makes a row's bits its own: keys in tiles of one width per head size, at
// absolute positions, taken from the last to the first, against a reference exponent that only the
// row's own scores move (prefill_softmax.cuh). By wgmma, a row that sees more than kWholeKeys is
// attended in spans of about kSpanKeys keys at absolute positions (prefill_plan.cpp), each for
// itself, and its spans fold in index order (prefill_merge.h).
#pragma once

#include <cstdint>

#include "backend/cuda/decode_params.h"
#include "backend/cuda/kv_layout.h"

namespace pagoda::cuda {

constexpr int32_t kEverything = 1 << 30;  // a window that ends nowhere
constexpr int32_t kFull = 1 << 29;        // `limit` of a tile whose rows see every key
constexpr int32_t kSpanKeys = 8192;       // of a span: as many whole key tiles as fit
constexpr int32_t kWholeKeys = 20480;     // rows that see no more are attended whole
constexpr int32_t kNoPart = -1;

struct PrefillTile {
  int32_t row;         // of q and out; its position's keys end before `limit`
  int32_t num_rows;    // 0: there is no more work
  int32_t tile_begin;  // key tiles [tile_begin, tile_end), walked downwards
  int32_t tile_end;
  int32_t kv_len;
  int32_t limit;  // row r of the tile sees keys < min(kv_len, limit + r)
  int32_t seq;    // row of the block table
  int32_t part;   // where a span's results go: row r's to part + r; kNoPart: to `out`
};
static_assert(sizeof(PrefillTile) == 32);

// Rows whose spans fold: what span i of row r gave is at part + i * num_rows + r.
struct PrefillMerge {
  int32_t row;  // of out
  int32_t num_rows;
  int32_t part;
  int32_t num_spans;
};
static_assert(sizeof(PrefillMerge) == 16);

// How many heads are worked on at a time depends on the number of sequences, the plan's crowd.
constexpr int32_t kCrowds = 3;
constexpr int32_t kCrowdSeqs[kCrowds] = {2, 8, 1 << 30};

struct PrefillPlanHeader {
  int32_t num_tiles;
  int32_t num_merges;
  int32_t num_parts;  // in use, for each query head
  int32_t crowd;      // the first of kCrowdSeqs that the tiles' sequences do not exceed
  int32_t unused[4];
};
static_assert(sizeof(PrefillPlanHeader) == 32);

// 128 keys of a sequence, copied to 16 bits (prefill_scratch.h).
constexpr int32_t kScratchBlockKeys = 128;
struct ScratchBlock {
  int32_t seq;  // row of the block table
  int32_t first_key;
  int32_t num_keys;     // 0: nothing to do
  int32_t num_skipped;  // of them, that no row sees: they are not read
};
static_assert(sizeof(ScratchBlock) == 16);

struct alignas(64) TensorMap {  // a CUtensorMap, without its header
  uint64_t opaque[16];
};

struct PrefillParams {
  TensorMap q;  // [T, H, D]
  const PrefillPlanHeader* header;
  const PrefillTile* tiles;
  const int32_t* block_table;  // [B, max_blocks]
  const uint8_t* kv;           // [N][KH][head_bytes]
  uint8_t* out;                // as q
  float* log_sum_exp;          // [T, H] or null
  const float* sinks;          // [H] or null
  int32_t* ticket;             // 0 before and after each launch
  float* part_out;             // [parts][H][D]: sums of values by weights 2^(score - maximum)
  PartSum* part_sum;           // [parts][H]; `maximum` is the row's reference exponent
  int64_t block_bytes;
  int64_t out_row_bytes;
  int64_t sum_row_floats;
  int32_t head_bytes, v_offset;
  int32_t max_blocks, block_size;
  int32_t piece;           // keys of a copy, all of one block
  uint32_t block_inverse;  // ceil(2^32 / block_size)
  int32_t heads, group;
  int32_t ranks;                   // blocks of a cluster, 1 or 2: see prefill_producer.cuh
  int32_t section_heads[kCrowds];  // heads worked on at a time, by crowd
  int32_t few_tiles;               // of no more tiles, all heads' longest come first
  int32_t window;                  // or kEverything
  float score_scale;               // of capped scores, if there is a cap, to log2
  float cap_scale;                 // 2 log2 e x scale / softcap; 0: no cap
};

// For the kernels by mma.sync, which load Q themselves (`q` is unused) and take every KV format.
struct PrefillMmaParams : PrefillParams {
  const uint8_t* queries;  // [T, H, D] bf16 or f16
  int64_t q_row_bytes;
  const float* k_scales;  // fp8: [KH] or null (1)
  const float* v_scales;
  int32_t k_scales_offset, v_scales_offset;
  int32_t head_dim;        // D, at most the kernel's
  int32_t row_bytes;       // of a row of K or V in the cache
  int32_t log_atom_bytes;  // of its swizzle (kv_layout.h)
  Format format;
  int32_t q_is_bf16;
};

}  // namespace pagoda::cuda
