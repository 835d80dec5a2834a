// PrefixIndex: a trie of full blocks of tokens. A node is (parent node, the block's S token ids,
// salt) and names, for each layer group, the block that holds its K and V.
//
// Tokens are compared, so a hit is exact by induction over the parents; the hash only picks a
// bucket. The salt is compared at the first level, below which it is inherited. Written by KvCache
// only; frees no blocks. A node lives while it names a block, has children, or is held by a
// sequence. Memory is taken once: when no node is left, insert() says so and the block stays
// unindexed.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace pagoda {

class PrefixIndex {
 public:
  static constexpr int32_t kRoot = -1;  // parent of the first blocks
  static constexpr int32_t kNone = -2;

  // `hash_seed` makes buckets unpredictable; it changes no result.
  PrefixIndex(int32_t num_groups, int32_t block_size, int32_t num_blocks, uint64_t hash_seed);

  int32_t find(int32_t parent, std::span<const int32_t> tokens, std::string_view salt) const;
  // The node found or made; kNone when there is no room, or `parent` has been cut off.
  int32_t insert(int32_t parent, std::span<const int32_t> tokens, std::string_view salt);
  int32_t block(int32_t node, int32_t group) const { return blocks_[at(node, group)]; }  // or -1
  void set_block(int32_t node, int32_t group, int32_t block);
  void erase_block(int32_t block);  // one that a node names
  // A held node stays; each hold is dropped once. kRoot needs none.
  void hold(int32_t node);
  void drop(int32_t node);
  // Cuts off `node` and all below it: never found again. The blocks that they named are added to
  // `blocks`, and named no more.
  void cut(int32_t node, std::vector<int32_t>& blocks);

  // Looking in.
  int32_t num_nodes() const { return num_nodes_; }
  int32_t node_of(int32_t block) const { return node_of_block_[block]; }  // or kNone
  int32_t parent(int32_t node) const { return nodes_[node].parent; }
  std::span<const int32_t> tokens(int32_t node) const;
  std::string_view salt(int32_t node) const;  // of a first-level node

 private:
  struct Node {
    int32_t parent = kNone;
    int32_t first_child = kNone, previous_sibling = kNone, next_sibling = kNone;
    int32_t next_in_bucket = kNone;  // or the next unused node
    int32_t num_blocks = 0;
    int32_t num_holds = 0;
    bool is_cut = false;
    std::string salt;
  };
  size_t at(int32_t node, int32_t group) const {
    return static_cast<size_t>(node) * num_groups_ + group;
  }
  size_t bucket_of(int32_t parent, std::span<const int32_t> tokens, std::string_view salt) const;
  void unlink_from_bucket(int32_t node);
  void link_to_parent(int32_t node);
  void unlink_from_parent(int32_t node);
  void clear_block(int32_t node, int32_t group);
  void prune(int32_t node);  // removes it, and then its parents, as far as nothing needs them

  int32_t num_groups_;
  int32_t block_size_;
  uint64_t hash_seed_;
  std::vector<Node> nodes_;
  std::vector<int32_t> tokens_;         // [nodes, S]
  std::vector<int32_t> blocks_;         // [nodes, groups] or -1
  std::vector<int32_t> node_of_block_;  // [N]
  std::vector<int32_t> buckets_;        // a power of two of list heads
  int32_t first_unused_ = kNone;
  int32_t num_nodes_ = 0;
};

}  // namespace pagoda
