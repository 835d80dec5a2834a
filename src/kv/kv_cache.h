// KvCache: which blocks a sequence's past lies in; the one KV type that the scheduler sees.
//
// It owns the BlockPool and the PrefixIndex and knows the layer groups; it never touches bytes:
// what must be done to them before a step (zero a taken block, copy-on-write) it notes, and
// take_step() hands it over. A SequenceKv belongs to a Sequence and is changed here only. Tables
// grow only at the end; shared blocks are read-only; only full, computed blocks are indexed; a hit
// never covers the last token. Blocks released while a step is out go free when that step returns.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "backend/kv_format.h"
#include "kv/block_pool.h"
#include "kv/layout.h"
#include "kv/prefix_index.h"

namespace pagoda {

struct KvCacheOptions {
  int32_t block_size = 16;  // S
  int32_t num_blocks = 0;
  std::vector<int32_t> windows = {0};  // of each group; 0: sees everything
  bool prefix_caching = true;
  int64_t block_bytes = 0;  // for messages; 0: not known

  static KvCacheOptions of(const KvLayout& layout, int64_t num_blocks, bool prefix_caching);
};

// One sequence's block tables.
struct SequenceKv {
  std::vector<std::vector<int32_t>> tables;  // [groups][ceil(num_slots / S)]; -1 behind a window
  std::vector<int32_t> first_blocks;         // [groups] where a table's blocks start
  int32_t num_slots = 0;                     // positions that have a block
  int32_t num_indexed = 0;                   // full blocks known to the index
  int32_t node = PrefixIndex::kRoot;         // of the last one, held
  bool is_indexable = true;                  // false once the index had no room
};

struct PrefixMatch {
  int32_t num_tokens = 0;     // a multiple of S
  std::vector<int32_t> path;  // index nodes of the matched blocks
};

class KvCache {
 public:
  explicit KvCache(const KvCacheOptions& options);

  // The longest cached prefix that every group can continue from, shorter than `tokens`.
  PrefixMatch match(std::span<const int32_t> tokens, std::string_view salt) const;
  // Whether, after adopting `match`, `tokens` in all would fit, a step adding at most `chunk` of
  // them, with `spare` blocks left over.
  bool fits(const PrefixMatch& match, int64_t tokens, int64_t chunk, int64_t spare) const;
  // The matched blocks become the start of `sequence`, which must be empty.
  void adopt(SequenceKv& sequence, const PrefixMatch& match);

  // Blocks for positions `begin` … `end` - 1, which are about to be computed; blocks that no query
  // from `begin` on can see are given up. False, with nothing taken, when there are too few.
  [[nodiscard]] bool reserve(SequenceKv& sequence, int32_t begin, int32_t end);
  // The first `num_computed` tokens are computed and right: full blocks join the index.
  void commit(SequenceKv& sequence,
              std::span<const int32_t> tokens,
              int32_t num_computed,
              std::string_view salt);
  // `child`, empty, shares every block; whoever writes to a shared one first copies it.
  void fork(const SequenceKv& parent, SequenceKv& child);
  void release(SequenceKv& sequence);
  // What was computed from the first of these tokens on is not to be trusted: it leaves the index,
  // with all that was built on it.
  void distrust(std::span<const int32_t> tokens, std::string_view salt);

  // What the step that was just scheduled must do first; cleared by the call.
  struct StepBlocks {
    std::vector<int32_t> zero;
    std::vector<BlockCopy> copies;
  };
  const StepBlocks& pending_step() const { return pending_; }
  void step_submitted();  // in order; takes what pending_step() says
  void step_returned();   // in the same order: blocks released during the step go free
  bool awaits_blocks() const { return !deferred_.empty(); }

  void clear_prefixes();  // every cached block that nobody references goes free

  int32_t block_size() const { return options_.block_size; }
  int32_t num_groups() const { return static_cast<int32_t>(options_.windows.size()); }
  int64_t blocks_of_sequence(int64_t tokens, int64_t chunk) const;
  // The longest sequence that all blocks together hold, up to `most`.
  int64_t tokens_within(int64_t chunk, int64_t most) const;
  const KvCacheOptions& options() const { return options_; }
  const BlockPool& pool() const { return pool_; }
  const PrefixIndex& index() const { return index_; }
  // References that no table accounts for: releases put off and sources of copies.
  std::vector<int32_t> pinned_blocks() const;

 private:
  struct Deferred {
    uint64_t step;  // goes free when that step has returned
    int32_t block;
  };
  int32_t first_visible_block(int32_t group, int32_t begin) const;
  int32_t first_adopted_block(int32_t group, const PrefixMatch& match) const;
  int32_t longest_continuable(std::span<const int32_t> path) const;
  bool is_shared(int32_t block) const;
  void give_up_behind_windows(SequenceKv& sequence, int32_t begin);
  void copy_on_write(SequenceKv& sequence, int32_t group, int32_t place);
  int32_t take();
  void drop(int32_t block);

  KvCacheOptions options_;
  BlockPool pool_;
  PrefixIndex index_;
  StepBlocks pending_;
  std::vector<Deferred> deferred_;
  uint64_t num_submitted_ = 0;
  uint64_t num_returned_ = 0;
};

}  // namespace pagoda
