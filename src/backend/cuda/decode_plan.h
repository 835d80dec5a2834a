// The plan of a step's decode attention: which parts of which rows are whose work, in arrays of
// fixed shape that are uploaded with the batch. A pure function of the lengths (O(rows + keys /
// 2048)); nothing in it decides a row's bits (decode_params.h), only who computes what.
//
// Items are sections of 2048 keys, longest first and KV heads fastest, dealt to the blocks in turn,
// so no block has more than the mean and one item; where sections are fewer than 0.7 of the chip's
// multiprocessors, items are chunks of 256 keys; where whole rows balance as well, items are whole
// rows and nothing is left to merge. Whole parts of a prefix that sequences share become items of
// all their rows: read once; half of the blocks then begin with their second item. Decode rows are
// few per sequence (1 to 8 drafts).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/cuda/decode_params.h"

namespace pagoda::cuda {

// Consecutive sequences of the plan whose first num_keys keys lie in the same blocks.
struct SharedPrefix {
  int32_t first_seq = 0;
  int32_t num_seqs = 0;
  int32_t num_keys = 0;
};

// What items are. A captured graph fixes it, as it fixes the kernel that merges.
enum class DecodeParts : uint8_t { by_load, sections, chunks };

struct DecodePlanInput {
  std::span<const int32_t> cu_q_lens;         // [B + 1]
  std::span<const int32_t> kv_lens;           // [B]
  std::span<const int32_t> seqs = {};         // which sequences to attend; empty: all
  std::span<const SharedPrefix> shared = {};  // indices into seqs, or sequences; disjoint
  int32_t kv_heads = 1;
  int32_t group = 1;    // G: query heads per KV head
  int32_t window = 0;   // 0: all keys
  int32_t columns = 8;  // of the kernel: rows x heads of an item
  DecodeParts parts = DecodeParts::by_load;
  int32_t num_multiprocessors = 132;
  int32_t full_grid =
      0;  // blocks of a full launch: decode_full_grid(); 0: items are parts, in order
};

struct DecodePlan {
  DecodePlanHeader header = {};
  std::vector<DecodeItem> items;
  std::vector<DecodeRow> rows;
  int32_t max_parts_per_row = 1;
  int32_t max_sections_per_row = 1;
};

DecodePlan plan_decode(const DecodePlanInput& input);

// The arrays in one range of memory: [header | rows | items], each of a capacity that holds for
// every batch of the shape, so that captured graphs keep their addresses.
struct DecodePlanShape {
  int32_t max_rows = 0;
  int32_t max_items = 0;
  int32_t max_parts = 0;  // partials per query head, over all rows

  int64_t rows_offset() const { return sizeof(DecodePlanHeader); }
  int64_t items_offset() const { return rows_offset() + max_rows * int64_t{sizeof(DecodeRow)}; }
  int64_t num_bytes() const { return items_offset() + max_items * int64_t{sizeof(DecodeItem)}; }
  // f32 partials of all heads, then their sums.
  int64_t workspace_bytes(int32_t num_heads, int32_t head_dim) const {
    return int64_t{max_parts} * num_heads * (head_dim * 4 + int64_t{sizeof(PartSum)});
  }
};

// What any batch of up to max_seqs sequences of up to max_q_len rows, max_keys keys in all, needs.
DecodePlanShape decode_plan_shape(const DecodePlanInput& input,
                                  int32_t max_seqs,
                                  int32_t max_q_len,
                                  int64_t max_keys);

// Writes the plan, every byte of `out` (shape.num_bytes()).
void write_plan(const DecodePlan& plan, const DecodePlanShape& shape, std::span<std::byte> out);

// How a decode kernel is launched.
struct DecodeConfig {
  bool leaves_room = false;  // for the next launch, which then begins early
  int32_t blocks_per_multiprocessor = 1;
  int32_t num_slots = 2;
  int32_t num_flying = 2;
  int32_t shared_bytes = 0;
  int32_t grid = 0;
};
struct DecodeConfigInput {
  int32_t fixed_bytes = 0;  // shared memory beside the ring
  int32_t slot_bytes = 0;
  int32_t max_blocks_per_multiprocessor = 1;  // by registers
  int32_t num_multiprocessors = 132;
  int32_t shared_bytes_per_multiprocessor = 228 * 1024;
  int32_t flying_bytes = 80 << 10;  // on their way at once, per multiprocessor: docs/kernels.md
  bool short_items = false;         // chunks: a launch is a few microseconds
  int32_t max_work = 1 << 30;       // items x KV heads that the grid is for
  int32_t beside_bytes = 0;         // of shared memory, for a merge that waits beside the blocks
  int32_t min_slots = 2;            // that a warp holds at once
};
DecodeConfig decode_config(const DecodeConfigInput& input);

}  // namespace pagoda::cuda
