// TextEncoder: one call's work of turning parts of text into token ids.
//
// Joins the parts, finds added tokens (leftmost, then longest; control tokens only inside markup),
// and gives every stretch between them to the pre-tokenizer and the merger. Pieces that came before
// in the same text are answered from a table of fixed size. Lives for one call on one thread;
// borrows the Tokenizer.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace pagoda {

class TextEncoder {
 public:
  TextEncoder(const Tokenizer& tokenizer, bool add_bos);

  // The text must live until finish().
  void add(std::string_view text, TextOrigin origin);
  std::vector<int32_t> finish(int64_t* num_steps);

 private:
  struct Range {
    size_t begin, end;  // of markup
  };
  // A piece met before: its ids are those at ids_[first_id, first_id + num_ids).
  struct CachedPiece {
    static constexpr size_t kMaxBytes = 23;
    char bytes[kMaxBytes];
    uint8_t size;
    uint32_t first_id;
    uint32_t num_ids;
  };

  void encode_text(std::string_view text);
  size_t control_end(size_t position);
  void encode_stretch(std::string_view stretch);
  void encode_words(std::string_view piece);
  void encode_word(std::string_view word);
  const AddedTokenStrip* strip_of(int32_t id) const;

  const Tokenizer& tokenizer_;
  BpeMerger merger_;
  std::string_view single_;  // the text while it is one part that needs no change
  std::string joined_;
  bool is_joined_ = false;
  std::vector<Range> markup_;
  size_t next_markup_ = 0;
  bool is_first_stretch_ = true;

  std::string stretch_;  // a stretch that had to be changed
  std::vector<uint32_t> piece_ends_;
  std::vector<CachedPiece> cache_;
  std::vector<int32_t> ids_;
};

}  // namespace pagoda
