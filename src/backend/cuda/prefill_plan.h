// The plan of a step's prefill attention: tiles of query rows, each with the range of key tiles
// that its rows see, in an array of fixed shape that is uploaded with the batch. A pure function of
// the lengths, O(T / tile_rows + B); nothing in it decides a row's bits, only who computes what.
//
// The kernel draws (tile, head) pairs by ticket in the plan's order, longest tiles first, heads of
// a section fastest, so the last tiles drawn are short. Tiles never span sequences.
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
  int32_t window = 0;  // 0: all keys
  PrefillMask mask = PrefillMask::causal;
};

struct PrefillPlan {
  PrefillPlanHeader header = {};
  std::vector<PrefillTile> tiles;
};

PrefillPlan plan_prefill(const PrefillPlanInput& input);

// [header | tiles] in one range of memory, of a capacity that holds for every batch of the shape.
struct PrefillPlanShape {
  int32_t max_tiles = 0;

  static constexpr int64_t tiles_offset() { return sizeof(PrefillPlanHeader); }
  int64_t num_bytes() const { return tiles_offset() + max_tiles * int64_t{sizeof(PrefillTile)}; }
};

// What any batch of up to max_seqs sequences with max_rows query rows in all needs.
PrefillPlanShape prefill_plan_shape(int32_t tile_rows, int32_t max_seqs, int32_t max_rows);

// Writes the plan, every byte of `out` (shape.num_bytes()).
void write_plan(const PrefillPlan& plan, const PrefillPlanShape& shape, std::span<std::byte> out);

// Heads worked on at a time: whole KV heads, about 4 query heads, a divisor of H.
int32_t prefill_section_heads(int32_t num_heads, int32_t kv_heads);

}  // namespace pagoda::cuda
