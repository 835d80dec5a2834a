// How one call of attention is cut into work items for the threads: a pure function of the batch's
// lengths. The cut never changes a result (attention_tile.h), only who computes it.
//
// An item is up to kMaxItemRows rows of one (sequence, KV head). Where items are plenty, threads
// take them one by one, dearest first. Where they are few (decode of few sequences), the sequence
// of all (item, chunk) pairs is cut into one near-equal run per thread; an item that a cut goes
// through leaves a state and partials, which merge() folds afterwards.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/cpu/attention_args.h"
#include "backend/op_args.h"

namespace pagoda::cpu {

struct AttentionPlanArgs {
  const AttentionBatch& batch;
  int32_t kv_heads = 0;
  int32_t group = 0;  // G
  int32_t dim = 0;
  int32_t window = 0;
  int32_t num_threads = 1;
};

struct AttentionPlan {
  std::vector<AttentionItem> items;
  // Thread t runs items [thread_begin[t], thread_begin[t + 1]); empty: whoever is free takes the
  // next.
  std::vector<int32_t> thread_begin;
  std::vector<AttentionItem> merges;  // with all their chunks
  int64_t partial_floats = 0;
  int32_t num_threads = 1;  // that are worth waking
};

AttentionPlan plan_attention(const AttentionPlanArgs& args);
// Items of at most max_rows rows, never split: for the naive algorithm.
AttentionPlan plan_rows(const AttentionPlanArgs& args, int32_t max_rows);

// What partial_floats can come to.
int64_t max_partial_floats(int64_t max_context, int64_t dim, int num_threads);

}  // namespace pagoda::cpu
