#include "text/jinja_unicode.h"

#include <utf8proc.h>

namespace pagoda::jinja {

bool valid_utf8(std::string_view text) {
  const auto* p = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  size_t pos = 0;
  while (pos < text.size()) {
    if (p[pos] < 0x80) {
      ++pos;
      continue;
    }
    utf8proc_int32_t code;
    const auto length =
        utf8proc_iterate(p + pos, static_cast<utf8proc_ssize_t>(text.size() - pos), &code);
    if (length <= 0) return false;
    pos += static_cast<size_t>(length);
  }
  return true;
}

uint32_t next_char(std::string_view text, size_t* pos) {
  const auto byte = [&](size_t i) {
    return i < text.size() ? static_cast<uint32_t>(static_cast<unsigned char>(text[i])) : 0x80u;
  };
  const size_t i = *pos;
  const uint32_t lead = byte(i);
  const size_t length = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  *pos = i + length < text.size() ? i + length : text.size();
  if (length == 1) return lead;
  uint32_t code = lead & (0x7fu >> length);
  for (size_t k = 1; k < length; ++k) code = code << 6 | (byte(i + k) & 0x3f);
  return code;
}

void append_char(std::string* out, uint32_t code) {
  utf8proc_uint8_t bytes[4];
  const auto length = utf8proc_encode_char(static_cast<utf8proc_int32_t>(code), bytes);
  out->append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(length));
}

int64_t num_chars(std::string_view text) {
  int64_t n = 0;
  for (const char c : text) n += (c & 0xc0) != 0x80;
  return n;
}

size_t byte_offset(std::string_view text, int64_t chars) {
  size_t pos = 0;
  while (pos < text.size()) {
    if ((text[pos] & 0xc0) != 0x80 && chars-- == 0) return pos;
    ++pos;
  }
  return text.size();
}

bool is_space(uint32_t code) {
  if (code < 0x80) return code == ' ' || (code >= 9 && code <= 13) || (code >= 28 && code <= 31);
  return code == 0x85 || code == 0xa0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200a) ||
         code == 0x2028 || code == 0x2029 || code == 0x202f || code == 0x205f || code == 0x3000;
}

bool is_printable(uint32_t code) {
  if (code < 0x80) return code >= 0x20 && code != 0x7f;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(code))) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
      return false;
    default:
      return true;
  }
}

bool is_alpha(uint32_t code) {
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(code));
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

bool is_decimal(uint32_t code) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(code)) == UTF8PROC_CATEGORY_ND;
}

bool is_upper(uint32_t code) {
  return utf8proc_isupper(static_cast<utf8proc_int32_t>(code)) != 0;
}

bool is_lower(uint32_t code) {
  return utf8proc_islower(static_cast<utf8proc_int32_t>(code)) != 0;
}

std::string to_upper(std::string_view text) {
  std::string out;
  for (size_t pos = 0; pos < text.size();) {
    const uint32_t code = next_char(text, &pos);
    if (code == 0xdf) {
      out += "SS";
    } else {
      append_char(&out, static_cast<uint32_t>(utf8proc_toupper(static_cast<int32_t>(code))));
    }
  }
  return out;
}

std::string to_lower(std::string_view text) {
  std::string out;
  for (size_t pos = 0; pos < text.size();) {
    const uint32_t code = next_char(text, &pos);
    append_char(&out, static_cast<uint32_t>(utf8proc_tolower(static_cast<int32_t>(code))));
  }
  return out;
}

size_t skip_space(std::string_view text) {
  size_t pos = 0;
  while (pos < text.size()) {
    size_t next = pos;
    if (!is_space(next_char(text, &next))) break;
    pos = next;
  }
  return pos;
}

size_t end_without_space(std::string_view text) {
  size_t end = text.size();
  while (end > 0) {
    size_t start = end - 1;
    while (start > 0 && (text[start] & 0xc0) == 0x80) --start;
    size_t pos = start;
    if (!is_space(next_char(text, &pos))) break;
    end = start;
  }
  return end;
}

}  // namespace pagoda::jinja
