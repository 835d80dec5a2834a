#include "text/unicode.h"

#include <utf8proc.h>

#include <array>

namespace pagoda {
namespace {

CharClass classify(uint32_t code_point) {
  const bool is_space = (code_point >= 9 && code_point <= 13) || code_point == 0x85;
  if (is_space) return CharClass::space;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(code_point))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return CharClass::letter;
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
      return CharClass::mark;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return CharClass::number;
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return CharClass::space;
    case UTF8PROC_CATEGORY_PC:
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO:
      return CharClass::punctuation;
    case UTF8PROC_CATEGORY_SM:
    case UTF8PROC_CATEGORY_SC:
    case UTF8PROC_CATEGORY_SK:
    case UTF8PROC_CATEGORY_SO:
      return CharClass::symbol;
    default:
      return CharClass::other;
  }
}

std::array<CharClass, 128> ascii_classes() {
  std::array<CharClass, 128> classes{};
  for (uint32_t c = 0; c < 128; c++) classes[c] = classify(c);
  return classes;
}

}  // namespace

CharClass char_class(uint32_t code_point) {
  static const std::array<CharClass, 128> kAscii = ascii_classes();
  if (code_point < 128) return kAscii[code_point];
  if (code_point > 0x10FFFF) return CharClass::other;
  return classify(code_point);
}

Utf8Start inspect_utf8(std::string_view text, size_t position) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[position + i]); };
  const size_t left = text.size() - position;
  const uint8_t first = byte(0);
  if (first < 0x80) return {.length = 1};
  if (first < 0xC2 || first > 0xF4) return {.broken = 1};
  const uint32_t length = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  // The second byte's range shuts out overlong forms, surrogates and values above U+10FFFF.
  uint8_t low = 0x80, high = 0xBF;
  if (first == 0xE0) low = 0xA0;
  if (first == 0xED) high = 0x9F;
  if (first == 0xF0) low = 0x90;
  if (first == 0xF4) high = 0x8F;
  for (uint32_t i = 1; i < length; i++, low = 0x80, high = 0xBF) {
    if (i == left) return {.broken = i, .cut_off = true};
    if (byte(i) < low || byte(i) > high) return {.broken = i};
  }
  return {.length = length};
}

CodePoint decode_utf8(std::string_view text, size_t position) {
  const uint8_t first = static_cast<uint8_t>(text[position]);
  if (first < 0x80) return {first, 1};
  const Utf8Start start = inspect_utf8(text, position);
  if (start.length == 0) return {};
  uint32_t value = first & (0xFF >> (start.length + 1));
  for (uint32_t i = 1; i < start.length; i++) {
    value = value << 6 | (static_cast<uint8_t>(text[position + i]) & 0x3F);
  }
  return {value, start.length};
}

void append_utf8(std::string& text, uint32_t code_point) {
  if (code_point < 0x80) {
    text += static_cast<char>(code_point);
  } else if (code_point < 0x800) {
    text += static_cast<char>(0xC0 | code_point >> 6);
    text += static_cast<char>(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    text += static_cast<char>(0xE0 | code_point >> 12);
    text += static_cast<char>(0x80 | (code_point >> 6 & 0x3F));
    text += static_cast<char>(0x80 | (code_point & 0x3F));
  } else {
    text += static_cast<char>(0xF0 | code_point >> 18);
    text += static_cast<char>(0x80 | (code_point >> 12 & 0x3F));
    text += static_cast<char>(0x80 | (code_point >> 6 & 0x3F));
    text += static_cast<char>(0x80 | (code_point & 0x3F));
  }
}

}  // namespace pagoda
