#include "kv/audit.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/checked.h"

namespace pagoda {

namespace {

std::string audit_tables(const KvCache& kv, const SequenceKv& sequence) {
  if (sequence.tables.empty()) return sequence.num_slots == 0 ? "" : "slots without tables";
  for (int32_t group = 0; group < kv.num_groups(); group++) {
    const std::vector<int32_t>& table = sequence.tables[group];
    if (std::ssize(table) != ceil_div(sequence.num_slots, kv.block_size()))
      return fmt::format(
          "group {}: {} entries for {} slots", group, table.size(), sequence.num_slots);
    const int32_t window = kv.options().windows[group];
    for (int32_t i = 0; i < std::ssize(table); i++) {
      const bool is_behind = i < sequence.first_blocks[group];
      if (is_behind != (table[i] == -1) || (is_behind && window == 0) ||
          table[i] >= kv.pool().num_blocks())
        return fmt::format("group {}: entry {} is {}", group, i, table[i]);
    }
  }
  return "";
}

std::string audit_states(const BlockPool& pool) {
  int32_t num_free = 0;
  for (int32_t block = 0; block < pool.num_blocks(); block++) {
    const int states =
        int{pool.is_free(block)} + int{pool.references(block) > 0} + int{pool.is_idle(block)};
    if (states != 1) return fmt::format("block {} is in {} states", block, states);
    num_free += int{pool.is_free(block)};
  }
  if (num_free != pool.num_free() || std::ssize(pool.idle_blocks()) != pool.num_idle())
    return fmt::format("{} free and {} idle blocks, counted as {} and {}",
                       num_free,
                       pool.idle_blocks().size(),
                       pool.num_free(),
                       pool.num_idle());
  return "";
}

std::string audit_index(const KvCache& kv) {
  for (int32_t block = 0; block < kv.pool().num_blocks(); block++) {
    const int32_t node = kv.index().node_of(block);
    if (kv.pool().is_cached(block) != (node != PrefixIndex::kNone))
      return fmt::format("block {}: pool and index disagree on whether it is cached", block);
    if (node == PrefixIndex::kNone) continue;
    int32_t times = 0;
    for (int32_t group = 0; group < kv.num_groups(); group++)
      times += kv.index().block(node, group) == block;
    if (times != 1) return fmt::format("block {} is named {} times by node {}", block, times, node);
    int32_t root = node;
    while (kv.index().parent(root) >= 0) root = kv.index().parent(root);
    const int32_t parent = kv.index().parent(node);
    if (kv.index().find(parent, kv.index().tokens(node), kv.index().salt(root)) != node)
      return fmt::format("node {} is not found where its tokens lead", node);
  }
  return "";
}

}  // namespace

std::string audit(const KvCache& kv, std::span<const SequenceKv* const> sequences) {
  std::vector<int32_t> owners(kv.pool().num_blocks(), 0);
  for (const SequenceKv* sequence : sequences) {
    if (std::string wrong = audit_tables(kv, *sequence); !wrong.empty()) return wrong;
    for (const std::vector<int32_t>& table : sequence->tables)
      for (const int32_t block : table)
        if (block != -1) owners[block]++;
  }
  for (const int32_t block : kv.pinned_blocks()) owners[block]++;
  for (int32_t block = 0; block < kv.pool().num_blocks(); block++)
    if (owners[block] != kv.pool().references(block))
      return fmt::format("block {} has {} references and {} owners",
                         block,
                         kv.pool().references(block),
                         owners[block]);
  if (std::string wrong = audit_states(kv.pool()); !wrong.empty()) return wrong;
  return audit_index(kv);
}

}  // namespace pagoda
