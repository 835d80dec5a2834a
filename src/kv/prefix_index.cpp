#include "kv/prefix_index.h"

#include <xxhash.h>

#include <algorithm>
#include <bit>

#include "base/error.h"
#include "kv/planted_bug.h"

namespace pagoda {

namespace {
// Nodes beyond one per block: those that name none but have children or are held.
constexpr int32_t kSpareNodes = 64;
}  // namespace

PrefixIndex::PrefixIndex(int32_t num_groups,
                         int32_t block_size,
                         int32_t num_blocks,
                         uint64_t hash_seed)
    : num_groups_(num_groups), block_size_(block_size), hash_seed_(hash_seed) {
  const size_t capacity = static_cast<size_t>(num_blocks) + kSpareNodes;
  nodes_.resize(capacity);
  tokens_.resize(capacity * block_size);
  blocks_.resize(capacity * num_groups, -1);
  node_of_block_.resize(num_blocks, kNone);
  buckets_.resize(std::bit_ceil(capacity), kNone);
  for (size_t i = capacity; i-- > 0;) {
    nodes_[i].next_in_bucket = first_unused_;
    first_unused_ = static_cast<int32_t>(i);
  }
}

size_t PrefixIndex::bucket_of(int32_t parent,
                              std::span<const int32_t> tokens,
                              std::string_view salt) const {
  uint64_t seed = hash_seed_ + static_cast<uint32_t>(parent) * uint64_t{0x9E3779B97F4A7C15};
  if (parent == kRoot) seed ^= XXH3_64bits_withSeed(salt.data(), salt.size(), hash_seed_);
  return XXH3_64bits_withSeed(tokens.data(), tokens.size_bytes(), seed) & (buckets_.size() - 1);
}

int32_t PrefixIndex::find(int32_t parent,
                          std::span<const int32_t> tokens,
                          std::string_view salt) const {
  if (planted(PlantedBug::index_without_parent)) parent = kRoot;
  if (planted(PlantedBug::index_without_salt)) salt = {};
  int32_t node = buckets_[bucket_of(parent, tokens, salt)];
  for (; node != kNone; node = nodes_[node].next_in_bucket) {
    if (nodes_[node].parent != parent) continue;
    if (parent == kRoot && nodes_[node].salt != salt) continue;
    if (std::ranges::equal(this->tokens(node), tokens)) break;
  }
  return node;
}

int32_t PrefixIndex::insert(int32_t parent,
                            std::span<const int32_t> tokens,
                            std::string_view salt) {
  PG_CHECK(std::ssize(tokens) == block_size_, "{} tokens", tokens.size());
  if (planted(PlantedBug::index_without_parent)) parent = kRoot;
  if (planted(PlantedBug::index_without_salt)) salt = {};
  if (parent != kRoot && nodes_[parent].is_cut) return kNone;
  int32_t node = find(parent, tokens, salt);
  if (node != kNone || first_unused_ == kNone) return node;
  node = first_unused_;
  first_unused_ = nodes_[node].next_in_bucket;
  num_nodes_++;
  nodes_[node] = Node{.parent = parent, .salt = {}};
  if (parent == kRoot) nodes_[node].salt = salt;
  std::ranges::copy(tokens, tokens_.begin() + static_cast<ptrdiff_t>(node) * block_size_);
  int32_t& head = buckets_[bucket_of(parent, tokens, salt)];
  nodes_[node].next_in_bucket = head;
  head = node;
  link_to_parent(node);
  return node;
}

std::span<const int32_t> PrefixIndex::tokens(int32_t node) const {
  return {tokens_.data() + static_cast<ptrdiff_t>(node) * block_size_,
          static_cast<size_t>(block_size_)};
}

std::string_view PrefixIndex::salt(int32_t node) const {
  return nodes_[node].salt;
}

void PrefixIndex::set_block(int32_t node, int32_t group, int32_t block) {
  PG_CHECK(blocks_[at(node, group)] == -1 && node_of_block_[block] == kNone,
           "node {} group {} block {}",
           node,
           group,
           block);
  blocks_[at(node, group)] = block;
  node_of_block_[block] = node;
  nodes_[node].num_blocks++;
}

void PrefixIndex::clear_block(int32_t node, int32_t group) {
  node_of_block_[blocks_[at(node, group)]] = kNone;
  blocks_[at(node, group)] = -1;
  nodes_[node].num_blocks--;
}

void PrefixIndex::erase_block(int32_t block) {
  const int32_t node = node_of_block_[block];
  PG_CHECK(node != kNone, "block {} is not indexed", block);
  for (int32_t group = 0; group < num_groups_; group++)
    if (blocks_[at(node, group)] == block) clear_block(node, group);
  prune(node);
}

void PrefixIndex::hold(int32_t node) {
  if (node != kRoot) nodes_[node].num_holds++;
}

void PrefixIndex::drop(int32_t node) {
  if (node == kRoot) return;
  PG_CHECK(nodes_[node].num_holds > 0, "node {} is not held", node);
  nodes_[node].num_holds--;
  prune(node);
}

void PrefixIndex::cut(int32_t node, std::vector<int32_t>& blocks) {
  // Down to a leaf, off with it, and up again: no recursion, whatever the depth.
  const int32_t top = node;
  std::vector<int32_t> open = {top}, found;
  while (!open.empty()) {
    const int32_t next = open.back();
    open.pop_back();
    found.push_back(next);
    for (int32_t child = nodes_[next].first_child; child != kNone;
         child = nodes_[child].next_sibling)
      open.push_back(child);
  }
  for (const int32_t below : found) {
    for (int32_t group = 0; group < num_groups_; group++) {
      if (block(below, group) == -1) continue;
      blocks.push_back(block(below, group));
      clear_block(below, group);
    }
    if (!nodes_[below].is_cut) unlink_from_bucket(below);
    nodes_[below].is_cut = true;
  }
  // Children stand behind their parents in `found`. Pruning takes parents along, so ask who is
  // left.
  for (size_t i = found.size(); i-- > 0;)
    if (nodes_[found[i]].parent != kNone) prune(found[i]);
}

void PrefixIndex::prune(int32_t node) {
  while (node != kRoot) {
    Node& n = nodes_[node];
    if (n.num_blocks > 0 || n.num_holds > 0 || n.first_child != kNone) return;
    const int32_t parent = n.parent;
    if (!n.is_cut) unlink_from_bucket(node);
    unlink_from_parent(node);
    n = Node{.next_in_bucket = first_unused_, .salt = {}};
    first_unused_ = node;
    num_nodes_--;
    node = parent;
  }
}

void PrefixIndex::unlink_from_bucket(int32_t node) {
  int32_t* link = &buckets_[bucket_of(nodes_[node].parent, tokens(node), nodes_[node].salt)];
  while (*link != node) link = &nodes_[*link].next_in_bucket;
  *link = nodes_[node].next_in_bucket;
}

void PrefixIndex::link_to_parent(int32_t node) {
  const int32_t parent = nodes_[node].parent;
  if (parent == kRoot) return;  // nobody walks down from the root
  const int32_t sibling = nodes_[parent].first_child;
  nodes_[node].next_sibling = sibling;
  if (sibling != kNone) nodes_[sibling].previous_sibling = node;
  nodes_[parent].first_child = node;
}

void PrefixIndex::unlink_from_parent(int32_t node) {
  const Node& n = nodes_[node];
  if (n.parent == kRoot) return;
  if (n.next_sibling != kNone) nodes_[n.next_sibling].previous_sibling = n.previous_sibling;
  if (n.previous_sibling != kNone)
    nodes_[n.previous_sibling].next_sibling = n.next_sibling;
  else
    nodes_[n.parent].first_child = n.next_sibling;
}

}  // namespace pagoda
