// The plan of a step's prefill attention: tiles of query rows, each with the range of key tiles
// that its rows see, in an array of fixed shape that is uploaded with the batch. A pure function of
// the lengths, O(T / tile_rows + B). What it decides of a row's bits, whole or in spans, the row's
// position alone says; all else is who computes what.
//
// The kernel draws (tile, head) pairs by ticket in the plan's order, longest tiles first, heads of
// a section fastest, so the last tiles drawn are short. Tiles never span sequences. Rows of more
// than kWholeKeys keys (prefill_params.h) have tiles of their own, one for each span of keys.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/cuda/prefill_params.h"

namespace pagoda::cuda {

enum class PrefillMask : uint8_t { causal, full };

struct PrefillPlanInput {
  std::span<const int32_t> cu_q_lens;  // [B + 1]
  std::span<const int32_t> kv_lens;    // [B]
  std::span<const int32_t> seqs = {};  // which sequences to attend; empty: all
  int32_t tile_rows = 128;             // of the kernel: prefill_tile()
  int32_t tile_keys = 128;
  int32_t span_tiles = 0;           // key tiles of a span; 0: the kernel knows no spans
  int32_t whole_keys = kWholeKeys;  // for tests
  int32_t max_parts = kEverything;  // that a launch has room for
  int32_t window = 0;               // 0: all keys
  PrefillMask mask = PrefillMask::causal;
};

struct PrefillPlan {
  PrefillPlanHeader header = {};
  std::vector<PrefillTile> tiles;
  std::vector<PrefillMerge> merges;
};

// A plan for each launch: one, but where rows in spans give more than max_parts.
std::vector<PrefillPlan> plan_prefill(const PrefillPlanInput& input);

// [header | tiles | merges] in one range of memory, of a capacity that holds for every batch of the
// shape.
struct PrefillPlanShape {
  int32_t max_tiles = 0;
  int32_t max_merges = 0;
  int32_t max_parts = 0;  // of each query head

  static constexpr int64_t tiles_offset() { return sizeof(PrefillPlanHeader); }
  int64_t merges_offset() const {
    return tiles_offset() + max_tiles * int64_t{sizeof(PrefillTile)};
  }
  int64_t num_bytes() const { return merges_offset() + max_merges * int64_t{sizeof(PrefillMerge)}; }
  // Of a launch: [part_out | part_sum].
  int64_t workspace_bytes(int32_t num_heads, int32_t head_dim) const {
    return max_parts * part_bytes(num_heads, head_dim);
  }
  static int64_t part_bytes(int32_t num_heads, int32_t head_dim) {
    return num_heads * (head_dim * 4 + int64_t{sizeof(PartSum)});
  }
};

// The shape that holds exactly this plan.
PrefillPlanShape shape_of(const PrefillPlan& plan);

// What any launch needs for up to max_seqs sequences with max_rows query rows in all, each in up to
// max_spans spans.
struct PrefillLimits {
  int32_t tile_rows = 128;
  int32_t max_seqs = 0;
  int32_t max_rows = 0;
  int32_t max_spans = 0;          // 0: all are attended whole
  int32_t span_keys = kSpanKeys;  // at least
  int32_t max_parts = 0;
};
PrefillPlanShape prefill_plan_shape(const PrefillLimits& limits);

// Writes the plan, every byte of `out` (shape.num_bytes()).
void write_plan(const PrefillPlan& plan, const PrefillPlanShape& shape, std::span<std::byte> out);

// Heads worked on at a time: whole KV heads, a divisor of H. About 4, so that their keys stay in
// the L2 cache; 8 or 16 for a crowd of few sequences, since else all multiprocessors ask for the
// same keys at once; half as many above head size 128.
int32_t prefill_section_heads(int32_t num_heads, int32_t kv_heads, int32_t head_dim, int32_t crowd);

}  // namespace pagoda::cuda
