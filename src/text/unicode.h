// Code points out of bytes that may not be UTF-8, and the few character classes that pre-tokenizer
// patterns ask for.
//
// decode_utf8 never fails: a byte that starts no well-formed sequence is a code point of its own,
// kInvalid, one byte long, of class `other`. So every scanner built on it covers every byte once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace pagoda {

// letter \p{L}, mark \p{M}, number \p{N}, space \s (White_Space), punctuation \p{P}, symbol \p{S}.
enum class CharClass : uint8_t { other, letter, mark, number, space, punctuation, symbol };

struct CodePoint {
  static constexpr uint32_t kInvalid = 0xFFFFFFFF;
  uint32_t value = kInvalid;
  uint32_t bytes = 1;
};

// The code point at `position` (< text.size()).
CodePoint decode_utf8(std::string_view text, size_t position);
CharClass char_class(uint32_t code_point);
void append_utf8(std::string& text, uint32_t code_point);

// How the bytes at `position` start: `length` of the well-formed character there, or 0 with
// `broken` = the length of the longest start of a character that is there (at least 1), and
// `cut_off` when the text ends inside it.
struct Utf8Start {
  uint32_t length = 0;
  uint32_t broken = 0;
  bool cut_off = false;
};
Utf8Start inspect_utf8(std::string_view text, size_t position);

}  // namespace pagoda
