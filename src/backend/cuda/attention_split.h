// Which rows of a step take which arithmetic, and what is launched for them: sampling rows
// decode's, prompt rows prefill's (docs/kernels.md), by what a row is and never by how many there
// are.
//
// A batch is cut into pieces: runs of rows of one sequence that end at some key. Each sequence
// gives at most one piece of prompt rows, then its sampling rows in pieces of up to 8. Decode, and
// prefill over long caches, take as many launches as the workspace holds partials for, mostly one.
// Pure functions of the lengths: nothing here decides a row's bits.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/cuda/decode_plan.h"
#include "backend/cuda/prefill_plan.h"
#include "backend/cuda/prefill_scratch.h"

namespace pagoda::cuda {

constexpr int32_t kPieceRows = 8;

// Pieces side by side, in the order of the batch's rows.
struct AttentionPieces {
  std::vector<int32_t> cu_q_lens = {0};  // [P + 1]
  std::vector<int32_t> kv_lens;          // [P] keys up to and with the piece's last row
  std::vector<int32_t> seqs;             // [P] row of the block table
  std::vector<int32_t> fresh;            // [P] keys from here on are written by this step
  std::vector<int32_t> prompt;           // indices of pieces
  std::vector<int32_t> sampling;
  std::vector<SharedPrefix> shared;  // indices into `sampling`
};

struct RowLengths {
  std::span<const int32_t> cu_q_lens;      // [B + 1]
  std::span<const int32_t> kv_lens;        // [B]
  std::span<const int32_t> sampling_rows;  // [B], or empty: none
  std::span<const SharedPrefix> shared;    // of sequences
};
AttentionPieces split_rows(const RowLengths& batch);

// How many sampling rows the longest piece has, and how many share keys, at most: what the decode
// kernel's columns are chosen for.
int32_t longest_sampling_piece(const AttentionPieces& pieces);
int32_t most_rows_that_share(const AttentionPieces& pieces);
// Whether keys that rows share are read so much less often with `most` instead of `least` rows side
// by side that it outweighs teams at rest where nothing is shared (1 %: docs/kernels.md).
bool sharing_pays(const AttentionPieces& pieces, int32_t least, int32_t most);

// What the launches of one operation are planned with; cu_q_lens, kv_lens and seqs are the pieces'.
struct AttentionPlanInput {
  DecodePlanInput decode;
  PrefillPlanInput prefill;
  DecodePlanShape capacity;  // that a decode launch must fit into
  // Blocks of keys that a prefill launch has room to copy, enough for any one sequence; 0: it reads
  // the cache as it is.
  int32_t scratch_blocks = 0;
};

struct PrefillPart {
  PrefillPlan plan;
  std::vector<ScratchBlock> copied;
  bool reads_last_copy = false;  // of the part before: `copied` is empty
};
struct AttentionPlan {
  std::vector<DecodePlan> decode;    // none where no row samples
  std::vector<PrefillPart> prefill;  // none where no row is a prompt's
};
AttentionPlan plan_attention(const AttentionPieces& pieces, const AttentionPlanInput& input);

// The shape that holds exactly this plan.
DecodePlanShape shape_of(const DecodePlan& plan);

// What any batch within `limits` fits into, with as many launches as that takes.
struct AttentionLimits {
  int32_t max_tokens = 0;
  int32_t max_seqs = 0;
  int32_t max_context = 0;
  int32_t num_heads = 0;
  int32_t kv_heads = 0;
  int32_t num_multiprocessors = 132;
  int32_t head_dim = 0;
  bool prefill_knows_spans = false;
};
DecodePlanShape decode_capacity(const AttentionLimits& limits);
// With parts for at least one row tile over max_context keys.
PrefillPlanShape prefill_capacity(const AttentionLimits& limits);

}  // namespace pagoda::cuda
