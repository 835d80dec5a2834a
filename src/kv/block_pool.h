// BlockPool: which of N block ids are free, referenced, or cached-idle (referenced by nobody but
// holding a prefix that the index knows).
//
// take() gives the lowest free id (blocks in rising order read faster on a CPU), and when none is
// free the cached-idle one that was released longest ago. Written by KvCache only. Touches neither
// bytes nor tokens. Invariant: every block is in exactly one of the three states.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace pagoda {

class BlockPool {
 public:
  explicit BlockPool(int32_t num_blocks);

  struct Taken {
    int32_t block = -1;
    bool was_cached = false;  // evicted: the index must forget it
  };
  // A block with one reference; nullopt when all are referenced.
  [[nodiscard]] std::optional<Taken> take();
  void add_reference(int32_t block);  // of a referenced or a cached-idle block
  void release(int32_t block);        // the last one leaves it cached-idle or free
  void set_cached(int32_t block);     // of a referenced block
  void clear_cached(int32_t block);   // an idle one goes free

  int32_t num_blocks() const { return static_cast<int32_t>(blocks_.size()) - 1; }
  int32_t num_free() const { return num_free_; }
  int32_t num_idle() const { return num_idle_; }
  int32_t num_available() const { return num_free_ + num_idle_; }
  int32_t num_referenced() const { return num_blocks() - num_available(); }
  int32_t references(int32_t block) const { return blocks_[block].references; }
  bool is_cached(int32_t block) const { return blocks_[block].is_cached; }
  bool is_idle(int32_t block) const { return is_cached(block) && references(block) == 0; }
  bool is_free(int32_t block) const { return free_words_[block / 64] >> (block % 64) & 1; }
  std::vector<int32_t> idle_blocks() const;  // in the order of eviction

 private:
  struct Block {
    int32_t references = 0;
    bool is_cached = false;
    int32_t previous = 0, next = 0;  // of the idle list
  };
  void set_free(int32_t block);
  int32_t take_lowest_free();
  void link_idle(int32_t block);
  void unlink_idle(int32_t block);

  std::vector<Block> blocks_;         // [N + 1]; the last one is head and tail of the idle list
  std::vector<uint64_t> free_words_;  // a bit per block
  size_t lowest_word_ = 0;            // no word below it has a bit
  int32_t num_free_ = 0;
  int32_t num_idle_ = 0;
};

}  // namespace pagoda
