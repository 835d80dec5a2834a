#include "kv/kv_cache.h"

#include <algorithm>
#include <random>

#include "base/checked.h"
#include "base/error.h"
#include "kv/planted_bug.h"

namespace pagoda {

KvCacheOptions KvCacheOptions::of(const KvLayout& layout, int64_t num_blocks, bool prefix_caching) {
  KvCacheOptions options;
  options.block_size = layout.block_size;
  if (num_blocks < 1 || num_blocks > INT32_MAX / layout.block_size)
    throw Error(
        "kv.bad_size",
        "{} KV blocks of {} tokens: expected 1 to {}; set --kv-cache-memory-bytes so that it "
        "holds at least one block of {} bytes",
        num_blocks,
        layout.block_size,
        INT32_MAX / layout.block_size,
        layout.block_bytes());
  options.num_blocks = static_cast<int32_t>(num_blocks);
  options.windows.clear();
  for (const KvGroup& group : layout.groups) options.windows.push_back(group.spec.window);
  options.prefix_caching = prefix_caching;
  options.block_bytes = layout.block_bytes();
  return options;
}

KvCache::KvCache(const KvCacheOptions& options)
    : options_(options),
      pool_(options.num_blocks),
      index_(static_cast<int32_t>(options.windows.size()),
             options.block_size,
             options.num_blocks,
             std::random_device{}()) {}

int64_t KvCache::blocks_of_sequence(int64_t tokens, int64_t chunk) const {
  int64_t blocks = 0;
  for (const int32_t window : options_.windows)
    blocks += kv_blocks_of_sequence(window, options_.block_size, tokens, chunk);
  return blocks;
}

int64_t KvCache::tokens_within(int64_t chunk, int64_t most) const {
  return kv_tokens_within(
      [&](int64_t tokens) { return blocks_of_sequence(tokens, chunk); }, options_.num_blocks, most);
}

// The first block that a query at `begin` or later can see.
int32_t KvCache::first_visible_block(int32_t group, int32_t begin) const {
  const int32_t window = options_.windows[group];
  if (window == 0) return 0;
  const int32_t early = planted(PlantedBug::window_freed_too_early) ? options_.block_size : 0;
  return std::max(0, begin - window + 1 + early) / options_.block_size;
}

int32_t KvCache::first_adopted_block(int32_t group, const PrefixMatch& match) const {
  return std::min(first_visible_block(group, match.num_tokens),
                  static_cast<int32_t>(match.path.size()));
}

// Blocks of `path` that a sequence can continue from: the longest start at whose end every group
// still has what the next query sees.
int32_t KvCache::longest_continuable(std::span<const int32_t> path) const {
  auto length = static_cast<int32_t>(path.size());
  for (int32_t group = 0; group < num_groups(); group++) {
    if (options_.windows[group] != 0) continue;
    int32_t whole = 0;
    while (whole < length && index_.block(path[whole], group) != -1) whole++;
    length = whole;
  }
  if (planted(PlantedBug::hit_ignores_window)) return length;
  const auto is_held = [&](int32_t group, int32_t end) {
    for (int32_t i = first_visible_block(group, end * options_.block_size); i < end; i++)
      if (index_.block(path[i], group) == -1) return false;
    return true;
  };
  for (; length > 0; length--) {
    bool is_whole = true;
    for (int32_t group = 0; group < num_groups() && is_whole; group++)
      is_whole = options_.windows[group] == 0 || is_held(group, length);
    if (is_whole) break;
  }
  return length;
}

PrefixMatch KvCache::match(std::span<const int32_t> tokens, std::string_view salt) const {
  PrefixMatch match;
  if (!options_.prefix_caching || tokens.empty()) return match;
  const auto size = static_cast<size_t>(options_.block_size);
  const size_t last =
      planted(PlantedBug::hit_covers_last_token) ? tokens.size() : tokens.size() - 1;
  int32_t node = PrefixIndex::kRoot;
  for (size_t begin = 0; begin + size <= last; begin += size) {
    node = index_.find(node, tokens.subspan(begin, size), salt);
    if (node == PrefixIndex::kNone) break;
    match.path.push_back(node);
  }
  match.path.resize(longest_continuable(match.path));
  match.num_tokens = static_cast<int32_t>(match.path.size()) * options_.block_size;
  return match;
}

bool KvCache::fits(const PrefixMatch& match, int64_t tokens, int64_t chunk, int64_t spare) const {
  int64_t need = spare, available = pool_.num_available();
  for (int32_t group = 0; group < num_groups(); group++) {
    const int32_t first = first_adopted_block(group, match);
    const auto num_adopted = std::ssize(match.path) - first;
    need += std::max<int64_t>(
        0,
        kv_blocks_of_sequence(options_.windows[group], options_.block_size, tokens, chunk) -
            num_adopted);
    for (size_t i = first; i < match.path.size(); i++) {
      const int32_t block = index_.block(match.path[i], group);
      if (block != -1 && pool_.is_idle(block)) available--;
    }
  }
  return need <= available;
}

void KvCache::adopt(SequenceKv& sequence, const PrefixMatch& match) {
  PG_CHECK(sequence.tables.empty(), "the sequence has {} slots", sequence.num_slots);
  sequence.tables.resize(num_groups());
  sequence.first_blocks.assign(num_groups(), 0);
  for (int32_t group = 0; group < num_groups(); group++) {
    const int32_t first = first_adopted_block(group, match);
    sequence.first_blocks[group] = first;
    sequence.tables[group].assign(first, -1);
    for (size_t i = first; i < match.path.size(); i++) {
      const int32_t block = index_.block(match.path[i], group);
      if (block != -1) pool_.add_reference(block);
      sequence.tables[group].push_back(block);
    }
  }
  sequence.num_slots = match.num_tokens;
  sequence.num_indexed = static_cast<int32_t>(match.path.size());
  if (!match.path.empty()) sequence.node = match.path.back();
  index_.hold(sequence.node);
}

// References of copies and of steps that are out don't count: they read what is written already,
// and are done before, or in order with, whatever writes next.
bool KvCache::is_shared(int32_t block) const {
  if (pool_.references(block) <= 1 || planted(PlantedBug::no_copy_on_write)) return false;
  return pool_.references(block) - std::ranges::count(deferred_, block, &Deferred::block) > 1;
}

void KvCache::give_up_behind_windows(SequenceKv& sequence, int32_t begin) {
  if (planted(PlantedBug::window_never_freed)) return;
  for (int32_t group = 0; group < num_groups(); group++) {
    std::vector<int32_t>& table = sequence.tables[group];
    const int32_t end =
        std::min(first_visible_block(group, begin), static_cast<int32_t>(table.size()));
    for (int32_t& i = sequence.first_blocks[group]; i < end; i++) {
      drop(table[i]);
      table[i] = -1;
    }
  }
}

bool KvCache::reserve(SequenceKv& sequence, int32_t begin, int32_t end) {
  give_up_behind_windows(sequence, begin);
  const auto num_blocks = static_cast<int32_t>(ceil_div(end, options_.block_size));
  const int32_t first_written = begin / options_.block_size;
  int64_t need = 0;
  for (const std::vector<int32_t>& table : sequence.tables) {
    need += std::max<int64_t>(0, num_blocks - std::ssize(table));
    if (first_written < std::ssize(table) && is_shared(table[first_written])) need++;
  }
  if (need > pool_.num_available()) return false;
  for (int32_t group = 0; group < num_groups(); group++) {
    std::vector<int32_t>& table = sequence.tables[group];
    if (first_written < std::ssize(table) && is_shared(table[first_written]))
      copy_on_write(sequence, group, first_written);
    while (std::ssize(table) < num_blocks) table.push_back(take());
  }
  sequence.num_slots = std::max(sequence.num_slots, end);
  return true;
}

void KvCache::copy_on_write(SequenceKv& sequence, int32_t group, int32_t place) {
  int32_t& entry = sequence.tables[group][place];
  const int32_t from = entry;
  entry = take();
  pending_.copies.push_back({from, entry});
  // The source must outlast the copy, which is done by the step that is being scheduled.
  deferred_.push_back({num_submitted_ + 1, from});
}

void KvCache::commit(SequenceKv& sequence,
                     std::span<const int32_t> tokens,
                     int32_t num_computed,
                     std::string_view salt) {
  if (!options_.prefix_caching) return;
  const int32_t size = options_.block_size;
  PG_CHECK(num_computed <= sequence.num_slots,
           "{} computed in {} slots",
           num_computed,
           sequence.num_slots);
  if (planted(PlantedBug::index_partial_block))
    num_computed = std::min(num_computed + 1, static_cast<int32_t>(tokens.size()));
  while (sequence.is_indexable && (sequence.num_indexed + 1) * size <= num_computed &&
         sequence.num_indexed < std::ssize(sequence.tables[0])) {
    const int32_t place = sequence.num_indexed;
    const int32_t node =
        index_.insert(sequence.node, tokens.subspan(int64_t{place} * size, size), salt);
    sequence.is_indexable = node != PrefixIndex::kNone;
    if (!sequence.is_indexable) return;
    index_.hold(node);
    index_.drop(sequence.node);
    sequence.node = node;
    sequence.num_indexed++;
    for (int32_t group = 0; group < num_groups(); group++) {
      const int32_t block = sequence.tables[group][place];
      if (block == -1 || pool_.is_cached(block) || index_.block(node, group) != -1) continue;
      index_.set_block(node, group, block);
      pool_.set_cached(block);
    }
  }
}

void KvCache::fork(const SequenceKv& parent, SequenceKv& child) {
  PG_CHECK(child.tables.empty(), "the child has {} slots", child.num_slots);
  child = parent;
  index_.hold(child.node);
  if (planted(PlantedBug::fork_shares_without_reference)) return;
  for (const std::vector<int32_t>& table : child.tables)
    for (const int32_t block : table)
      if (block != -1) pool_.add_reference(block);
}

void KvCache::release(SequenceKv& sequence) {
  // The end first: what comes last is the least likely to be shared, so it is evicted first.
  const size_t num_blocks = sequence.tables.empty() ? 0 : sequence.tables[0].size();
  const size_t kept = planted(PlantedBug::skip_decref_on_release) ? 1 : 0;
  for (size_t i = num_blocks; i-- > kept;)
    for (const std::vector<int32_t>& table : sequence.tables)
      if (table[i] != -1) drop(table[i]);
  index_.drop(sequence.node);
  sequence = SequenceKv{};
}

void KvCache::distrust(std::span<const int32_t> tokens, std::string_view salt) {
  if (std::ssize(tokens) < options_.block_size || planted(PlantedBug::nan_blocks_stay_indexed))
    return;
  const int32_t node = index_.find(PrefixIndex::kRoot, tokens.first(options_.block_size), salt);
  if (node == PrefixIndex::kNone) return;
  std::vector<int32_t> blocks;
  index_.cut(node, blocks);
  for (const int32_t block : blocks) pool_.clear_cached(block);
}

int32_t KvCache::take() {
  const std::optional<BlockPool::Taken> taken = pool_.take();
  PG_CHECK(taken.has_value(), "no block left of {}", pool_.num_blocks());
  if (taken->was_cached && !planted(PlantedBug::evicted_block_stays_indexed))
    index_.erase_block(taken->block);
  pending_.zero.push_back(taken->block);
  return taken->block;
}

void KvCache::drop(int32_t block) {
  if (num_submitted_ == num_returned_ || planted(PlantedBug::free_before_step_ends))
    pool_.release(block);
  else
    deferred_.push_back({num_submitted_, block});
}

void KvCache::step_submitted() {
  num_submitted_++;
  pending_.zero.clear();
  pending_.copies.clear();
}

void KvCache::step_returned() {
  PG_CHECK(num_returned_ < num_submitted_, "step {}", num_returned_);
  num_returned_++;
  size_t kept = 0;
  for (const Deferred& deferred : deferred_) {
    if (deferred.step <= num_returned_)
      pool_.release(deferred.block);
    else
      deferred_[kept++] = deferred;
  }
  deferred_.resize(kept);
}

std::vector<int32_t> KvCache::pinned_blocks() const {
  std::vector<int32_t> blocks;
  for (const Deferred& deferred : deferred_) blocks.push_back(deferred.block);
  return blocks;
}

void KvCache::clear_prefixes() {
  for (const int32_t block : pool_.idle_blocks()) {
    index_.erase_block(block);
    pool_.clear_cached(block);
  }
}

}  // namespace pagoda
