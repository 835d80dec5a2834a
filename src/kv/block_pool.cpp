#include "kv/block_pool.h"

#include <algorithm>
#include <bit>

#include "base/error.h"

namespace pagoda {

BlockPool::BlockPool(int32_t num_blocks)
    : blocks_(static_cast<size_t>(num_blocks) + 1),
      free_words_((static_cast<size_t>(num_blocks) + 63) / 64, 0) {
  PG_CHECK(num_blocks >= 1, "num_blocks {}", num_blocks);
  blocks_[num_blocks].previous = blocks_[num_blocks].next = num_blocks;
  for (int32_t block = 0; block < num_blocks; block++) set_free(block);
}

std::optional<BlockPool::Taken> BlockPool::take() {
  Taken taken;
  if (num_free_ > 0) {
    taken.block = take_lowest_free();
  } else if (num_idle_ > 0) {
    taken.block = blocks_.back().next;
    taken.was_cached = true;
    unlink_idle(taken.block);
    blocks_[taken.block].is_cached = false;
  } else {
    return std::nullopt;
  }
  blocks_[taken.block].references = 1;
  return taken;
}

void BlockPool::add_reference(int32_t block) {
  if (blocks_[block].references == 0) {
    PG_CHECK(blocks_[block].is_cached, "block {} is free", block);
    unlink_idle(block);
  }
  blocks_[block].references++;
}

void BlockPool::release(int32_t block) {
  PG_CHECK(blocks_[block].references > 0, "block {} has no reference", block);
  if (--blocks_[block].references > 0) return;
  if (blocks_[block].is_cached)
    link_idle(block);
  else
    set_free(block);
}

void BlockPool::set_cached(int32_t block) {
  PG_CHECK(blocks_[block].references > 0 && !blocks_[block].is_cached, "block {}", block);
  blocks_[block].is_cached = true;
}

void BlockPool::clear_cached(int32_t block) {
  PG_CHECK(blocks_[block].is_cached, "block {} is not cached", block);
  if (is_idle(block)) {
    unlink_idle(block);
    set_free(block);
  }
  blocks_[block].is_cached = false;
}

std::vector<int32_t> BlockPool::idle_blocks() const {
  std::vector<int32_t> order;
  for (int32_t block = blocks_.back().next; block != num_blocks(); block = blocks_[block].next)
    order.push_back(block);
  return order;
}

void BlockPool::set_free(int32_t block) {
  const size_t word = static_cast<size_t>(block) / 64;
  free_words_[word] |= uint64_t{1} << (block % 64);
  lowest_word_ = std::min(lowest_word_, word);
  num_free_++;
}

int32_t BlockPool::take_lowest_free() {
  while (free_words_[lowest_word_] == 0) lowest_word_++;
  uint64_t& word = free_words_[lowest_word_];
  const auto block = static_cast<int32_t>(lowest_word_ * 64 + std::countr_zero(word));
  word &= word - 1;
  num_free_--;
  return block;
}

void BlockPool::link_idle(int32_t block) {
  const int32_t end = num_blocks();
  blocks_[block].previous = blocks_[end].previous;
  blocks_[block].next = end;
  blocks_[blocks_[end].previous].next = block;
  blocks_[end].previous = block;
  num_idle_++;
}

void BlockPool::unlink_idle(int32_t block) {
  blocks_[blocks_[block].previous].next = blocks_[block].next;
  blocks_[blocks_[block].next].previous = blocks_[block].previous;
  num_idle_--;
}

}  // namespace pagoda
