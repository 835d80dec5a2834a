#include "text/token_spelling.h"

#include <array>

#include "text/unicode.h"

namespace pagoda {
namespace {

constexpr std::string_view kSpaceMarker = "\xE2\x96\x81";
constexpr uint32_t kAlphabetEnd = 0x144;  // GPT-2's alphabet lies below

// GPT-2's alphabet: printable Latin-1 bytes are their own character, the others, in order, are
// U+0100 and up (bytes_to_unicode in gpt-2/src/encoder.py).
constexpr bool is_printable(int byte) {
  return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
}

constexpr std::array<int16_t, kAlphabetEnd> make_alphabet() {
  std::array<int16_t, kAlphabetEnd> bytes{};
  for (auto& b : bytes) b = -1;
  int next = 0x100;
  for (int b = 0; b < 256; b++) bytes[is_printable(b) ? b : next++] = static_cast<int16_t>(b);
  return bytes;
}

constexpr std::array<int16_t, kAlphabetEnd> kAlphabet = make_alphabet();

// -1: a character is not of the alphabet. `out` may be null.
int64_t undo_alphabet(std::string_view text, char* out) {
  int64_t count = 0;
  for (size_t i = 0; i < text.size();) {
    const CodePoint c = decode_utf8(text, i);
    if (c.value >= kAlphabetEnd || kAlphabet[c.value] < 0) return -1;
    if (out != nullptr) out[count] = static_cast<char>(kAlphabet[c.value]);
    count++;
    i += c.bytes;
  }
  return count;
}

uint32_t undo_markers(std::string_view text, char* out) {
  uint32_t count = 0;
  for (size_t i = 0; i < text.size();) {
    const bool is_marker = text.substr(i, kSpaceMarker.size()) == kSpaceMarker;
    if (out != nullptr) out[count] = is_marker ? ' ' : text[i];
    count++;
    i += is_marker ? kSpaceMarker.size() : 1;
  }
  return count;
}

uint32_t spell(std::string_view text, TokenKind kind, TokenSpelling spelling, char* out) {
  const bool is_plain = kind == TokenKind::normal || kind == TokenKind::unused;
  if (kind == TokenKind::byte) {
    if (out != nullptr) *out = static_cast<char>(parse_byte_token(text));
    return 1;
  }
  if (spelling == TokenSpelling::byte_level && is_plain) {
    const int64_t count = undo_alphabet(text, nullptr);
    if (count >= 0) {
      if (out != nullptr) undo_alphabet(text, out);
      return static_cast<uint32_t>(count);
    }
  }
  if (spelling == TokenSpelling::space_marker) {
    return undo_markers(text, out);
  }
  if (out != nullptr) text.copy(out, text.size());
  return static_cast<uint32_t>(text.size());
}

}  // namespace

bool is_in_alphabet(std::string_view text) {
  return undo_alphabet(text, nullptr) >= 0;
}

uint32_t spell_token(std::string_view text, TokenKind kind, TokenSpelling spelling, char* out) {
  return spell(text, kind, spelling, out);
}

uint32_t spelled_size(std::string_view text, TokenKind kind, TokenSpelling spelling) {
  return spell(text, kind, spelling, nullptr);
}

int parse_byte_token(std::string_view text) {
  if (text.size() != 6 || text.substr(0, 3) != "<0x" || text[5] != '>') return -1;
  int value = 0;
  for (const char c : text.substr(3, 2)) {
    int digit;
    if (c >= '0' && c <= '9') {
      digit = c - '0';
    } else if (c >= 'A' && c <= 'F') {
      digit = c - 'A' + 10;
    } else if (c >= 'a' && c <= 'f') {
      digit = c - 'a' + 10;
    } else {
      return -1;
    }
    value = value * 16 + digit;
  }
  return value;
}

bool has_space_marker(std::string_view text) {
  return text.find(kSpaceMarker) != std::string_view::npos;
}

void replace_space_markers(std::string_view text, std::string& out) {
  out.resize(text.size());
  out.resize(undo_markers(text, out.data()));
}

}  // namespace pagoda
