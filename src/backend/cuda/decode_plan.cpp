#include "backend/cuda/decode_plan.h"

#include <algorithm>
#include <climits>
#include <cstring>

#include "base/checked.h"
#include "base/error.h"

namespace pagoda::cuda {
namespace {

// Sections x KV heads per multiprocessor under which items are chunks. Sections need no merge of
// their own and fewer partials; a chunk is the smaller grain.
constexpr int kSectionsPerTenMultiprocessors = 7;

struct Sequence {
  int32_t table_row, first_row, num_rows;
  int32_t kv_len, fresh;
  int32_t first_key;     // of its first row
  int32_t shared_parts;  // parts [0, shared_parts) are the group's items
};

class Planner {
 public:
  explicit Planner(const DecodePlanInput& input) : in_(input) {}

  DecodePlan plan() {
    add_sequences();
    int64_t sections = 0;
    for (const Sequence& s : seqs_) sections += num_parts(s, kSection) * num_tiles(s.num_rows);
    const bool many = sections * in_.kv_heads * 10 >=
                      int64_t{kSectionsPerTenMultiprocessors} * in_.num_multiprocessors;
    const bool by_section =
        in_.parts == DecodeParts::sections || (in_.parts == DecodeParts::by_load && many);
    part_keys_ = by_section ? kSection : kChunk;
    whole_rows_ = by_section && whole_rows_balance();
    for (Sequence& s : seqs_) number_parts(s);
    if (!whole_rows_)
      for (const SharedPrefix& prefix : in_.shared) share(prefix);
    for (const Sequence& s : seqs_)
      for (int32_t part = std::max(first_part(s), s.shared_parts); part < end_part(s);
           part += whole_rows_ ? end_part(s) : 1)
        add_items(s, part, s.first_row, s.num_rows);
    sort_items();
    if (shares_ && !whole_rows_) take_turns();
    plan_.header.num_items = static_cast<int32_t>(plan_.items.size());
    plan_.header.num_rows = static_cast<int32_t>(plan_.rows.size());
    plan_.header.chunks_per_part = part_keys_ / kChunk;
    return std::move(plan_);
  }

 private:
  int32_t first_part(const Sequence& s) const { return s.first_key / part_keys_; }
  // A sequence without keys still has one part, which writes zeros.
  int32_t end_part(const Sequence& s) const {
    return std::max(first_part(s) + 1, static_cast<int32_t>(ceil_div(s.kv_len, part_keys_)));
  }
  static int64_t num_parts(const Sequence& s, int32_t keys) {
    return std::max<int64_t>(1, ceil_div(s.kv_len, keys) - s.first_key / keys);
  }
  int32_t rows_per_tile() const { return std::max(1, in_.columns / in_.group); }
  int32_t head_tiles() const {
    return in_.group <= in_.columns ? 1 : static_cast<int32_t>(ceil_div(in_.group, in_.columns));
  }
  int64_t num_tiles(int32_t rows) const { return ceil_div(rows, rows_per_tile()) * head_tiles(); }

  void add_sequences() {
    const int32_t all = static_cast<int32_t>(in_.kv_lens.size());
    const int32_t count = in_.seqs.empty() ? all : static_cast<int32_t>(in_.seqs.size());
    for (int32_t i = 0; i < count; i++) {
      const int32_t b = in_.seqs.empty() ? i : in_.seqs[i];
      const int32_t q_len = in_.cu_q_lens[b + 1] - in_.cu_q_lens[b], kv_len = in_.kv_lens[b];
      PG_CHECK(q_len >= 0 && kv_len >= 0, "sequence {}: {} rows, {} keys", b, q_len, kv_len);
      if (q_len == 0) continue;
      Sequence s = {b, static_cast<int32_t>(plan_.rows.size()), q_len, kv_len, 0, 0, 0};
      s.fresh = std::max(0, kv_len - q_len);
      for (int32_t r = 0; r < q_len; r++) {
        DecodeRow row = {};
        row.token = in_.cu_q_lens[b] + r;
        row.position = std::max(-1, kv_len - q_len + r);
        row.first_key = in_.window > 0 ? std::max(0, row.position - in_.window + 1) : 0;
        plan_.rows.push_back(row);
      }
      s.first_key = plan_.rows[s.first_row].first_key;
      seqs_.push_back(s);
      index_.resize(count, -1);
      index_[i] = static_cast<int32_t>(seqs_.size()) - 1;
    }
  }

  bool shares_parts() const {
    return std::any_of(in_.shared.begin(), in_.shared.end(), [&](const SharedPrefix& prefix) {
      return prefix.num_keys >= part_keys_;
    });
  }

  // Dealt longest first, is any block's share of whole rows more than 4 % over the mean?
  bool whole_rows_balance() const {
    if (in_.full_grid == 0 || shares_parts()) return false;
    std::vector<int64_t> sizes;
    for (const Sequence& s : seqs_)
      sizes.insert(sizes.end(),
                   num_tiles(s.num_rows) * in_.kv_heads,
                   ceil_div(s.kv_len, kChunk) - s.first_key / kChunk);
    std::sort(sizes.rbegin(), sizes.rend());
    std::vector<int64_t> loads(in_.full_grid);
    int64_t total = 0;
    for (size_t i = 0; i < sizes.size(); i++) {
      loads[i % loads.size()] += sizes[i];
      total += sizes[i];
    }
    const int64_t most = *std::max_element(loads.begin(), loads.end());
    return most * in_.full_grid * 100 <= total * 104;
  }

  void number_parts(const Sequence& s) {
    const int32_t first = first_part(s), count = whole_rows_ ? 1 : end_part(s) - first;
    plan_.max_parts_per_row = std::max(plan_.max_parts_per_row, count);
    plan_.max_sections_per_row =
        std::max(plan_.max_sections_per_row, static_cast<int32_t>(num_parts(s, kSection)));
    for (int32_t r = s.first_row; r < s.first_row + s.num_rows; r++) {
      DecodeRow& row = plan_.rows[r];
      row.first_part = first;
      row.num_parts = count;
      row.part_offset = plan_.header.num_parts - first;
      if (count > 1) plan_.header.num_parts += count;
    }
  }

  // Whole parts that every row of the group sees in full.
  void share(const SharedPrefix& prefix) {
    PG_CHECK(in_.window == 0 || prefix.num_keys == 0, "window {}", in_.window);
    int32_t keys = prefix.num_keys, first_row = INT_MAX, num_rows = 0;
    for (int32_t i = prefix.first_seq; i < prefix.first_seq + prefix.num_seqs; i++) {
      if (i >= static_cast<int32_t>(index_.size()) || index_[i] < 0) continue;
      const Sequence& s = seqs_[index_[i]];
      keys = std::min(keys, s.fresh);
      first_row = std::min(first_row, s.first_row);
      num_rows += s.num_rows;
    }
    const int32_t parts = keys / part_keys_;
    if (num_rows == 0 || parts == 0) return;
    shares_ = true;
    Sequence group = {};
    for (int32_t i = prefix.first_seq; i < prefix.first_seq + prefix.num_seqs; i++) {
      if (index_[i] < 0) continue;
      if (group.num_rows == 0) group = seqs_[index_[i]];
      seqs_[index_[i]].shared_parts = parts;
    }
    group.shared_parts = parts;
    for (int32_t part = 0; part < parts; part++) add_items(group, part, first_row, num_rows);
  }

  void add_items(const Sequence& s, int32_t part, int32_t first_row, int32_t num_rows) {
    const int32_t head_step = std::min(in_.group, in_.columns);
    for (int32_t r = 0; r < num_rows; r += rows_per_tile())
      for (int32_t g = 0; g < in_.group; g += head_step) {
        DecodeItem item = {};
        item.table_row = s.table_row;
        item.first_row = first_row + r;
        item.num_rows = static_cast<int16_t>(std::min(rows_per_tile(), num_rows - r));
        item.num_parts = static_cast<int16_t>(whole_rows_ ? end_part(s) - part : 1);
        item.first_head = static_cast<int16_t>(g);
        item.num_heads = static_cast<int16_t>(std::min(head_step, in_.group - g));
        item.part = part;
        item.key_begin = plan_.rows[item.first_row].first_key;
        item.key_end = plan_.rows[item.first_row + item.num_rows - 1].position + 1;
        if (part < s.shared_parts) item.key_end = (part + 1) * part_keys_;
        item.fresh = s.fresh;
        plan_.items.push_back(item);
      }
  }

  int32_t num_chunks(const DecodeItem& item) const {
    const int32_t per_part = part_keys_ / kChunk, first = item.part * per_part;
    const int32_t begin = std::max(first, item.key_begin / kChunk);
    const int32_t end = std::min(first + item.num_parts * per_part,
                                 static_cast<int32_t>(ceil_div(item.key_end, kChunk)));
    return std::max(0, end - begin);
  }

  // Longest first: dealt in turn, no block then has more than the mean and one item.
  void sort_items() {
    std::stable_sort(
        plan_.items.begin(), plan_.items.end(), [this](const DecodeItem& a, const DecodeItem& b) {
          return num_chunks(a) > num_chunks(b);
        });
  }

  // Shared keys are read from memory once and from L2 for each tile of rows, and their items are
  // the longest: if all blocks began with them, memory would have nothing to do. Half of the blocks
  // take their second item first; what each has in all stays.
  void take_turns() {
    const int32_t blocks = in_.full_grid, round = blocks / in_.kv_heads;
    if (round == 0 || blocks % in_.kv_heads != 0) return;  // a block's items are no round apart
    const auto count = static_cast<int32_t>(plan_.items.size());
    for (int32_t i = round / 2; i < round && i + round < count; i++)
      std::swap(plan_.items[i], plan_.items[i + round]);
  }

  const DecodePlanInput& in_;
  DecodePlan plan_;
  std::vector<Sequence> seqs_;
  std::vector<int32_t> index_;  // sequence of the input's place; -1: it has no rows
  int32_t part_keys_ = kSection;
  bool whole_rows_ = false;
  bool shares_ = false;  // some items are of shared keys
};

}  // namespace

DecodePlan plan_decode(const DecodePlanInput& input) {
  PG_CHECK(input.group >= 1 && input.columns >= 1 && input.kv_heads >= 1,
           "group {} columns {} heads {}",
           input.group,
           input.columns,
           input.kv_heads);
  return Planner(input).plan();
}

DecodePlanShape decode_plan_shape(const DecodePlanInput& input,
                                  int32_t max_seqs,
                                  int32_t max_q_len,
                                  int64_t max_keys) {
  const int64_t head_tiles = ceil_div(input.group, std::min(input.group, input.columns));
  const int64_t row_tiles = ceil_div(max_q_len, std::max(1, input.columns / input.group));
  const int64_t sections = max_keys / kSection + 2 * int64_t{max_seqs};
  // Chunks are items only while sections are few.
  const int64_t few = ceil_div(int64_t{kSectionsPerTenMultiprocessors} * input.num_multiprocessors,
                               10 * input.kv_heads);
  const int64_t chunked = input.parts == DecodeParts::chunks ? sections : std::min(few, sections);
  const int64_t parts = std::max(sections, kChunksPerSection * chunked);
  DecodePlanShape shape;
  shape.max_rows = max_seqs * max_q_len;
  shape.max_items = static_cast<int32_t>(parts * row_tiles * head_tiles);
  shape.max_parts = static_cast<int32_t>(parts * max_q_len);
  return shape;
}

void write_plan(const DecodePlan& plan, const DecodePlanShape& shape, std::span<std::byte> out) {
  PG_CHECK(static_cast<int64_t>(out.size()) == shape.num_bytes(), "{} bytes", out.size());
  PG_CHECK(static_cast<int64_t>(plan.rows.size()) <= shape.max_rows &&
               static_cast<int64_t>(plan.items.size()) <= shape.max_items &&
               plan.header.num_parts <= shape.max_parts,
           "rows {} of {}, items {} of {}, parts {} of {}",
           plan.rows.size(),
           shape.max_rows,
           plan.items.size(),
           shape.max_items,
           plan.header.num_parts,
           shape.max_parts);
  std::memset(out.data(), 0, out.size());
  std::memcpy(out.data(), &plan.header, sizeof plan.header);
  std::memcpy(
      out.data() + shape.rows_offset(), plan.rows.data(), plan.rows.size() * sizeof(DecodeRow));
  std::memcpy(
      out.data() + shape.items_offset(), plan.items.data(), plan.items.size() * sizeof(DecodeItem));
}

DecodeConfig decode_config(const DecodeConfigInput& in) {
  constexpr int32_t kReserved = 1024;  // of the driver, per block
  constexpr int32_t kMaxSlots = 16;
  DecodeConfig c;
  const int32_t rounds = static_cast<int32_t>(ceil_div(in.max_work, in.num_multiprocessors));
  c.blocks_per_multiprocessor = std::clamp(rounds, 1, in.max_blocks_per_multiprocessor);
  // A short launch leaves room for the next launch's blocks, on the same multiprocessors or, if it
  // is small, on others; a longer one must not, or the next launch's blocks settle unevenly.
  c.leaves_room = in.short_items && in.max_work <= in.num_multiprocessors;
  int32_t share =
      c.leaves_room && 2 * in.max_work > in.num_multiprocessors ? 2 : c.blocks_per_multiprocessor;
  const auto room = [&] { return (in.shared_bytes_per_multiprocessor - in.beside_bytes) / share; };
  const auto slots = [&] { return (room() - kReserved - in.fixed_bytes) / in.slot_bytes; };
  while (share > 1 && slots() < in.min_slots) share--;  // below Hopper there is less of it
  c.blocks_per_multiprocessor = std::min(c.blocks_per_multiprocessor, share);
  c.num_slots = std::min(kMaxSlots, slots());
  if (c.num_slots < in.min_slots)
    throw Error(
        "cuda.unsupported",
        "{} blocks per multiprocessor: {} + {} x {} bytes of shared memory each, {} are there",
        c.blocks_per_multiprocessor,
        in.fixed_bytes,
        in.min_slots,
        in.slot_bytes,
        room() - kReserved);
  const int32_t flying = in.flying_bytes + (c.blocks_per_multiprocessor == 1 ? 32 << 10 : 0);
  c.num_flying = c.leaves_room ? c.num_slots
                               : std::clamp(flying / c.blocks_per_multiprocessor / in.slot_bytes,
                                            int32_t{2},
                                            c.num_slots);
  c.shared_bytes = std::max(in.fixed_bytes + c.num_slots * in.slot_bytes,
                            in.shared_bytes_per_multiprocessor / (share + 1) - kReserved + 16);
  c.grid = static_cast<int32_t>(std::min<int64_t>(
      in.max_work, int64_t{in.num_multiprocessors} * c.blocks_per_multiprocessor));
  return c;
}

}  // namespace pagoda::cuda
