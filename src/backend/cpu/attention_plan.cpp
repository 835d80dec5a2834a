#include "backend/cpu/attention_plan.h"

#include <algorithm>

#include "base/checked.h"

namespace pagoda::cpu {
namespace {

constexpr int32_t kSplitRows = 24;     // rows of an item whose keys may be split
constexpr int64_t kPageOverhead = 6;   // a page's own cost, in rows
constexpr int64_t kWorthWaking = 400;  // cost (rows x pages) below which the caller works alone

// Keys that an item's rows see: [first, end).
struct Keys {
  int64_t first;
  int64_t end;
};
Keys keys_of(const AttentionItem& item, int32_t group, int32_t window) {
  const int64_t low = item.first_position + item.row_begin / group;
  const int64_t high = item.first_position + (item.row_begin + item.num_rows - 1) / group;
  return {window > 0 ? std::max<int64_t>(0, low + 1 - window) : 0, high + 1};
}

int64_t chunk_cost(const AttentionItem& item, const Keys& keys, int32_t chunk) {
  const int64_t first = std::max<int64_t>(keys.first, int64_t{chunk} * kChunkTokens);
  const int64_t end = std::min<int64_t>(keys.end, int64_t{chunk + 1} * kChunkTokens);
  return (ceil_div(end, kPageTokens) - first / kPageTokens) * (item.num_rows + kPageOverhead);
}

struct Cut {
  std::vector<AttentionItem> items;
  std::vector<int64_t> costs;
  int64_t total = 0;
  int64_t largest = 0;       // cost of an item
  int32_t largest_rows = 0;  // of an item
};

// All rows that see keys, by (sequence, KV head), in near-equal items of at most max_rows.
Cut cut_rows(const AttentionPlanArgs& args, int32_t max_rows) {
  Cut cut;
  const AttentionBatch& batch = args.batch;
  for (size_t b = 0; b < batch.kv_lens.size(); b++) {
    const int32_t begin = batch.cu_q_lens[b], q_len = batch.cu_q_lens[b + 1] - begin;
    const int32_t first_position = batch.kv_lens[b] - q_len;
    const int32_t skipped = std::min(q_len, std::max(0, -first_position)) * args.group;
    const int32_t rows = q_len * args.group - skipped;
    const int32_t pieces = static_cast<int32_t>(ceil_div(rows, max_rows));
    for (int32_t h = 0; h < args.kv_heads; h++)
      for (int32_t i = 0; i < pieces; i++) {
        AttentionItem item{};
        item.block_table = batch.block_table.data() + int64_t(b) * batch.max_blocks;
        item.kv_head = h;
        item.first_token = begin;
        item.first_position = first_position;
        item.row_begin = skipped + i * max_rows;
        item.num_rows = std::min(max_rows, rows - i * max_rows);
        const Keys keys = keys_of(item, args.group, args.window);
        item.chunk_begin = static_cast<int32_t>(keys.first / kChunkTokens);
        item.chunk_end = static_cast<int32_t>((keys.end - 1) / kChunkTokens) + 1;
        item.split_chunk = item.chunk_end;
        const int64_t cost = (ceil_div(keys.end, kPageTokens) - keys.first / kPageTokens) *
                             (item.num_rows + kPageOverhead);
        cut.items.push_back(item);
        cut.costs.push_back(cost);
        cut.total += cost;
        cut.largest = std::max(cut.largest, cost);
        cut.largest_rows = std::max(cut.largest_rows, item.num_rows);
      }
  }
  return cut;
}

AttentionPlan dearest_first(Cut cut, int32_t num_threads) {
  AttentionPlan plan;
  plan.num_threads = cut.total < kWorthWaking ? 1 : num_threads;
  if (plan.num_threads == 1) {
    plan.items = std::move(cut.items);
    return plan;
  }
  std::vector<int32_t> order(cut.items.size());
  for (size_t i = 0; i < order.size(); i++) order[i] = static_cast<int32_t>(i);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return cut.costs[a] > cut.costs[b];
  });
  plan.items.reserve(order.size());
  for (int32_t i : order) plan.items.push_back(cut.items[i]);
  return plan;
}

// One run of (item, chunk) pairs per thread.
class Splitter {
 public:
  Splitter(const AttentionPlanArgs& args, Cut cut) : args_(args), cut_(std::move(cut)) {}

  AttentionPlan split() {
    plan_.num_threads = args_.num_threads;
    plan_.thread_begin.assign(1, 0);
    for (const AttentionItem& item : cut_.items) split_item(item);
    plan_.thread_begin.resize(args_.num_threads + 1, static_cast<int32_t>(plan_.items.size()));
    return std::move(plan_);
  }

 private:
  // The thread whose run the next `cost` falls into, by its middle.
  int32_t thread_at(int64_t cost) const {
    return static_cast<int32_t>((2 * done_ + cost) * args_.num_threads / (2 * cut_.total));
  }
  void enter(int32_t thread) {
    while (static_cast<int32_t>(plan_.thread_begin.size()) <= thread)
      plan_.thread_begin.push_back(static_cast<int32_t>(plan_.items.size()));
  }

  void split_item(const AttentionItem& item) {
    const Keys keys = keys_of(item, args_.group, args_.window);
    const size_t first_piece = plan_.items.size();
    AttentionItem piece = item;
    for (int32_t chunk = item.chunk_begin; chunk < item.chunk_end; chunk++) {
      const int64_t cost = chunk_cost(item, keys, chunk);
      const int32_t thread = thread_at(cost);
      if (chunk > item.chunk_begin && thread >= static_cast<int32_t>(plan_.thread_begin.size())) {
        piece.chunk_end = chunk;
        plan_.items.push_back(piece);
        piece.chunk_begin = chunk;
      }
      enter(thread);
      done_ += cost;
    }
    piece.chunk_end = item.chunk_end;
    plan_.items.push_back(piece);
    if (plan_.items.size() == first_piece + 1) return;
    AttentionItem whole = item;
    whole.partials = plan_.partial_floats;
    whole.split_chunk = plan_.items[first_piece].chunk_end;
    for (size_t i = first_piece; i < plan_.items.size(); i++) {
      plan_.items[i].kind = i == first_piece ? ItemKind::state : ItemKind::parts;
      plan_.items[i].partials = whole.partials;
      plan_.items[i].split_chunk = whole.split_chunk;
    }
    plan_.merges.push_back(whole);
    plan_.partial_floats +=
        (whole.chunk_end - whole.split_chunk + 1) * partial_floats(item.num_rows, args_.dim);
  }

  const AttentionPlanArgs& args_;
  Cut cut_;
  AttentionPlan plan_;
  int64_t done_ = 0;
};

}  // namespace

AttentionPlan plan_attention(const AttentionPlanArgs& args) {
  for (int32_t max_rows = kMaxItemRows;; max_rows = std::max(kSplitRows, max_rows / 2)) {
    Cut cut = cut_rows(args, max_rows);
    const bool plenty = cut.largest * 4 * args.num_threads <= cut.total;
    if (plenty || args.num_threads == 1 || cut.total < kWorthWaking)
      return dearest_first(std::move(cut), args.num_threads);
    if (cut.largest_rows <= kSplitRows) return Splitter(args, std::move(cut)).split();
  }
}

AttentionPlan plan_rows(const AttentionPlanArgs& args, int32_t max_rows) {
  return dearest_first(cut_rows(args, max_rows), args.num_threads);
}

// At most one item per cut between two threads is split, and no more chunks than it has are kept.
int64_t max_partial_floats(int64_t max_context, int64_t dim, int num_threads) {
  const int64_t chunks = ceil_div(max_context, kChunkTokens) + 1;
  return (num_threads - 1) * chunks * partial_floats(kSplitRows, dim);
}

}  // namespace pagoda::cpu
