// attention over a paged cache: ragged batches, windows, softcap, sinks, every KV dtype.
#include <algorithm>
#include <cmath>

#include "backend/conformance/paged_cache.h"

namespace pagoda::conformance {
namespace {

struct Lengths {
  int32_t q_len;
  int32_t kv_len;
};

// Which rows are sampling rows: every one, or of each sequence a random number of the last ones.
enum class Kinds : uint8_t { random, all_sampling };

struct Shape {
  KvDType dtype = KvDType::f32;
  int32_t head_dim = 64;
  int32_t num_heads = 6, kv_heads = 2;
  std::vector<Lengths> sequences;
  int32_t window = 0;
  float softcap = 0;
  bool sinks = false;
  AttentionAlgorithm algorithm = AttentionAlgorithm::flash;
  int32_t block_size = 0;  // 0: the default
  float query_size = 1;
  Kinds kinds = Kinds::random;
  int32_t shared_blocks = 0;  // that all sequences begin with
};

constexpr int32_t kNeverRead = 1 << 28;  // a block id that no pool has

// A batch on one side: rows [begin, end) of the whole.
struct Batch {
  std::vector<int32_t> cu_q_lens = {0}, kv_lens, sampling_rows, table;
  std::vector<SharedKeys> shared;
  IntArray cu_q_lens_on, kv_lens_on, table_on;
  AttentionBatch on(Side side, int32_t max_blocks) const {
    return {.cu_q_lens = cu_q_lens_on.on(side),
            .kv_lens = kv_lens_on.on(side),
            .block_table = table_on.on(side),
            .max_blocks = max_blocks,
            .host_cu_q_lens = cu_q_lens,
            .host_kv_lens = kv_lens,
            .host_sampling_rows = sampling_rows,
            .host_shared = shared};
  }
};

class AttentionCase {
 public:
  AttentionCase(Session& s, const Shape& shape)
      : s_(s),
        shape_(shape),
        cache_(s,
               format(shape),
               shape.kv_heads,
               num_blocks(shape),
               PagedCache::Reference::as_read_from_device) {}

  void run() {
    for (const Lengths& sequence : shape_.sequences) {
      rows_ += sequence.q_len;
      max_blocks_ =
          std::max<int32_t>(max_blocks_, int32_t(ceil_div(sequence.kv_len, block_size())) + 1);
    }
    for (const Lengths& sequence : shape_.sequences) fill(sequence);
    Array q = s_.activations(rows_, shape_.num_heads * shape_.head_dim, shape_.query_size);
    Array sinks = s_.vector(shape_.num_heads, 0, 1);
    Array out = s_.output(rows_, shape_.num_heads * shape_.head_dim);
    Array log_sum_exp = s_.output(rows_, shape_.num_heads, Session::Precision::f32);
    Operation op{.what = "attention",
                 .rows = rows_,
                 .call = {},
                 .outputs = {&out, {&log_sum_exp, std::vector<double>(rows_, 1.0)}},
                 .tolerance = attention_tolerance(shape_.dtype)};
    op.call = [&](Backend& backend, Side side, int64_t begin, int64_t end) {
      const Batch part = batch(begin, end);
      const AttentionBatch on_side = part.on(side, max_blocks_);
      AttentionArgs args{.q = q.on(side).slice_rows(begin, end - begin),
                         .kv = cache_.on(side),
                         .batch = on_side,
                         .num_heads = shape_.num_heads,
                         .scale = 1 / std::sqrt(float(shape_.head_dim)),
                         .window = shape_.window,
                         .softcap = shape_.softcap,
                         .algorithm = shape_.algorithm,
                         .out = out.on(side).slice_rows(begin, end - begin),
                         .log_sum_exp = log_sum_exp.on(side).slice_rows(begin, end - begin)};
      if (shape_.sinks) args.sinks = sinks.on(side);
      backend.attention(args);
      backend.synchronize();
    };
    s_.check(op);
  }

 private:
  static KvFormat format(const Shape& shape) {
    return {shape.dtype,
            shape.block_size > 0 ? shape.block_size : default_block_size(shape.dtype),
            shape.head_dim,
            shape.head_dim};
  }
  static int32_t num_blocks(const Shape& shape) {
    int64_t blocks = 3;
    for (const Lengths& sequence : shape.sequences)
      blocks += ceil_div(sequence.kv_len, format(shape).block_size);
    return int32_t(blocks);
  }
  int64_t block_size() const { return cache_.format().block_size; }

  // Takes blocks for a sequence and stores random K and V at all of its positions.
  void fill(const Lengths& sequence) {
    const int64_t held = tables_.empty() ? 0 : shape_.shared_blocks;
    std::vector<int32_t> blocks = cache_.take(ceil_div(sequence.kv_len, block_size()) - held);
    if (held > 0) blocks.insert(blocks.begin(), tables_[0].begin(), tables_[0].begin() + held);
    const int64_t cols = shape_.kv_heads * shape_.head_dim;
    for (int64_t begin = held * block_size(); begin < sequence.kv_len; begin += 128) {
      const int64_t count = std::min<int64_t>(128, sequence.kv_len - begin);
      Array q = s_.activations(count, shape_.num_heads * shape_.head_dim);
      Array k = s_.activations(count, cols), v = s_.activations(count, cols);
      std::vector<int32_t> slots;
      for (int64_t p = begin; p < begin + count; p++)
        slots.push_back(int32_t(blocks[p / block_size()] * block_size() + p % block_size()));
      const IntArray slots_on = s_.ints(slots);
      s_.on(Side::device)
          .rope_store_kv({.q = q.on(Side::device),
                          .k = k.on(Side::device),
                          .v = v.on(Side::device),
                          .num_heads = shape_.num_heads,
                          .style = RopeStyle::none,
                          .slots = slots_on.on(Side::device),
                          .kv = cache_.on(Side::device)});
      s_.on(Side::device).synchronize();
      cache_.copy_to_reference(slots);
    }
    // What the window of the first row has left behind is never read.
    std::vector<int32_t> row(max_blocks_, kNeverRead);
    std::copy(blocks.begin(), blocks.end(), row.begin());
    const int64_t first_row = sequence.kv_len - sequence.q_len;
    if (shape_.window > 0)
      for (int64_t i = 0; (i + 1) * block_size() <= first_row - shape_.window + 1; i++)
        row[i] = kNeverRead;
    tables_.push_back(row);
    const bool all = shape_.kinds == Kinds::all_sampling;
    sampling_.push_back(all ? sequence.q_len : int32_t(s_.integer(0, sequence.q_len)));
  }

  Batch batch(int64_t begin, int64_t end) {
    Batch part;
    int64_t row = 0;
    for (size_t b = 0; b < shape_.sequences.size(); b++) {
      const Lengths& sequence = shape_.sequences[b];
      const int64_t from = std::max(begin, row), to = std::min(end, row + sequence.q_len);
      row += sequence.q_len;
      const bool whole = begin == 0 && end == rows_;
      if (from >= to && !whole) continue;
      part.cu_q_lens.push_back(part.cu_q_lens.back() + int32_t(to - from));
      part.kv_lens.push_back(sequence.kv_len - int32_t(row - to));
      part.sampling_rows.push_back(
          int32_t(std::max<int64_t>(0, to - std::max(from, row - sampling_[b]))));
      part.table.insert(part.table.end(), tables_[b].begin(), tables_[b].end());
    }
    if (shape_.shared_blocks > 0)
      part.shared = {
          {0, int32_t(part.kv_lens.size()), shape_.shared_blocks * int32_t(block_size())}};
    part.cu_q_lens_on = s_.ints(part.cu_q_lens);
    part.kv_lens_on = s_.ints(part.kv_lens);
    part.table_on = s_.ints(part.table);
    return part;
  }

  Session& s_;
  const Shape& shape_;
  PagedCache cache_;
  int64_t rows_ = 0;
  int32_t max_blocks_ = 1;
  std::vector<std::vector<int32_t>> tables_;
  std::vector<int32_t> sampling_;
};

void add_all_kinds(std::vector<Case>& cases, KvDType t) {
  const auto add = [&](std::string_view what, Shape shape) {
    shape.dtype = t;
    for (const AttentionAlgorithm algorithm :
         {AttentionAlgorithm::flash, AttentionAlgorithm::naive}) {
      shape.algorithm = algorithm;
      cases.push_back({fmt::format("attention_{}_{}{}",
                                   name(t),
                                   what,
                                   algorithm == AttentionAlgorithm::naive ? "_naive" : ""),
                       [shape](Session& s) { AttentionCase(s, shape).run(); }});
    }
  };
  const int32_t s = default_block_size(t);
  add("decode",
      {.sequences = {{1, 1}, {1, s - 1}, {1, s}, {1, s + 1}, {1, 300}, {1, 2}},
       .kinds = Kinds::all_sampling});
  add("drafts",
      {.sequences = {{4, 300}, {8, 40}, {2, 2}, {1, s}, {11, 270}, {0, 0}},
       .kinds = Kinds::all_sampling});
  add("prefill", {.sequences = {{37, 37}}});
  add("mixed", {.sequences = {{1, 77}, {9, 40}, {0, 0}, {13, 13}, {1, 1}, {3, 2 * s + 3}}});
  // Keys are cut at multiples of 256: before, at and past the borders.
  add("chunks",
      {.num_heads = 2,
       .kv_heads = 1,
       .sequences = {{1, 255}, {1, 256}, {1, 257}, {3, 258}, {2, 513}, {1, 768}}});
  add("rows_without_keys", {.sequences = {{4, 2}, {2, 2}}});
  add("window", {.sequences = {{1, 200}, {20, 90}, {5, 5}, {1, 300}}, .window = 33});
  add("window_of_one", {.sequences = {{1, 40}, {7, 20}}, .window = 1});
  add("softcap", {.sequences = {{1, 100}, {8, 30}}, .softcap = 20, .query_size = 4});
  add("sinks", {.sequences = {{1, 100}, {8, 30}}, .sinks = true});
  add("mha", {.num_heads = 4, .kv_heads = 4, .sequences = {{1, 70}, {6, 40}}});
  add("mqa_256", {.head_dim = 256, .num_heads = 4, .kv_heads = 1, .sequences = {{1, 90}, {9, 50}}});
  add("gqa_smollm", {.num_heads = 9, .kv_heads = 3, .sequences = {{1, 130}, {17, 60}}});
  add("group_of_8_128",
      {.head_dim = 128, .num_heads = 16, .kv_heads = 2, .sequences = {{1, 90}, {5, 30}}});
  add("head_80", {.head_dim = 80, .num_heads = 4, .kv_heads = 2, .sequences = {{1, 90}, {5, 30}}});
  add("head_96", {.head_dim = 96, .num_heads = 4, .kv_heads = 2, .sequences = {{1, 90}, {5, 30}}});
  add("shared_blocks",
      {.num_heads = 4,
       .kv_heads = 2,
       .sequences = {{1, 700}, {2, 650}, {1, 641}, {5, 900}, {1, 1000}},
       .kinds = Kinds::all_sampling,
       .shared_blocks = 640 / s});
  add("block_128", {.sequences = {{1, 150}, {5, 127}, {2, 128}}, .block_size = 128});
  add("block_16", {.sequences = {{1, 150}, {5, 17}, {2, 16}}, .block_size = 16});
}

}  // namespace

void add_attention_cases(std::vector<Case>& cases, const std::vector<KvDType>& kv_dtypes) {
  for (const KvDType t : kv_dtypes) add_all_kinds(cases, t);
}

}  // namespace pagoda::conformance
