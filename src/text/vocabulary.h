// Vocabulary: every token's bytes and the tables that encoding looks things up in, in one Buffer.
//
// The tables are flat: token bytes one after the other, open-addressing hash tables for bytes → id
// and for (left id, right id) → (rank, merged id), and the added tokens sorted by their bytes. The
// Buffer's size is a pure function of counts (VocabularyCounts), so the memory plan knows it before
// anything is loaded. Immutable after construction: any number of threads may read.
//
// Bytes are what the model's text is made of: GPT-2's alphabet and SentencePiece's U+2581 are
// undone here, once, at load.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/buffer.h"
#include "text/vocabulary_spec.h"

namespace pagoda {

struct VocabularyCounts {
  int64_t tokens = 0;
  int64_t text_bytes = 0;    // the bytes of all tokens
  int64_t scores = 0;        // tokens, or 0 where merges are ranked
  int64_t merges = 0;        // rules, also those that no text can reach
  int64_t added_tokens = 0;  // recognised before merging: control, unknown and user-defined ones
};
VocabularyCounts count_vocabulary(const VocabularySpec& spec);
// The size of the one Buffer; Error "tokenizer.invalid" when it does not fit in 63 bits.
int64_t vocabulary_bytes(const VocabularyCounts& counts);

class Vocabulary {
 public:
  struct Merge {
    int32_t left, right, rank, merged;  // rank + 1 in the table: 0 is an empty slot
  };
  // Which tokens a look-up may give: those that plain text can become, or the others (control,
  // unknown, byte, unreachable).
  enum class Reach : uint8_t { text, special };

  // Throws "tokenizer.invalid".
  Vocabulary(const VocabularySpec& spec, Allocator& allocator);

  int64_t size() const { return num_tokens_; }
  int64_t size_in_bytes() const { return buffer_.size(); }
  bool has(int64_t id) const { return id >= 0 && id < num_tokens_; }
  std::string_view bytes(int32_t id) const {
    return {text_ + offsets_[id], offsets_[id + 1] - offsets_[id]};
  }
  TokenKind kind(int32_t id) const { return kinds_[id]; }
  // Control and unknown tokens: never the text of an answer.
  bool is_control(int32_t id) const {
    return kinds_[id] == TokenKind::control || kinds_[id] == TokenKind::unknown;
  }
  // -1: no such token. With equal bytes the lowest id answers.
  int32_t find(std::string_view bytes, Reach reach) const;
  // The token of one byte ("<0xNN>", or a byte of the GPT-2 alphabet), or -1.
  int32_t byte_token(uint8_t byte) const { return byte_tokens_[byte]; }
  // nullptr: the pair does not merge.
  const Merge* find_merge(int32_t left, int32_t right) const;
  // Orders scores: a higher score has a lower key.
  uint32_t score_key(int32_t id) const { return score_keys_[id]; }
  // True when no token has a space right after this byte: text may be cut there before merging.
  bool splits_before_space(uint8_t last_byte) const { return !byte_before_space_[last_byte]; }

  // The longest added token at `position`, or -1; a control token only if it ends at or before
  // `control_end`.
  int32_t match_added(std::string_view text, size_t position, size_t control_end) const;
  bool may_start_added(uint8_t byte) const { return added_first_[byte] != added_first_[byte + 1]; }

 private:
  struct Slot {
    uint32_t tag, id_plus_one;
  };

  void place_tables(const VocabularyCounts& counts);
  void fill_tokens(const VocabularySpec& spec);
  void insert_token(int32_t id);
  void fill_byte_tokens(const VocabularySpec& spec);
  void fill_scores(const VocabularySpec& spec);
  void fill_merges(const VocabularySpec& spec);
  void insert_merge(const Merge& merge);
  void fill_added();
  Reach reach(int32_t id) const {
    const bool is_text =
        !is_control(id) && kinds_[id] != TokenKind::byte && kinds_[id] != TokenKind::unreachable;
    return is_text ? Reach::text : Reach::special;
  }

  Buffer buffer_;
  int64_t num_tokens_ = 0;
  uint64_t slot_mask_ = 0, merge_mask_ = 0;
  char* text_ = nullptr;
  uint32_t* offsets_ = nullptr;  // [tokens + 1]
  TokenKind* kinds_ = nullptr;
  uint32_t* score_keys_ = nullptr;
  Slot* slots_ = nullptr;
  Merge* merges_ = nullptr;
  int32_t* added_ = nullptr;  // ids of added tokens, in the order of their bytes
  int64_t num_added_ = 0;
  std::array<uint32_t, 257> added_first_{};  // [b]: the first of added_ that starts with byte b
  std::array<int32_t, 256> byte_tokens_{};
  std::array<bool, 256> byte_before_space_{};
};

}  // namespace pagoda
