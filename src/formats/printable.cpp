#include "formats/printable.h"

#include <fmt/format.h>

#include <cstdint>

namespace pagoda {

// The Unicode Standard, table 3-7: well-formed UTF-8 byte sequences.
size_t utf8_sequence(std::string_view bytes) {
  if (bytes.empty()) return 0;
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(bytes[i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return 1;
  const size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || bytes.size() < length) return 0;
  const uint8_t low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
  const uint8_t high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
  if (byte(1) < low || byte(1) > high) return 0;
  for (size_t i = 2; i < length; i++)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  return length;
}

std::string printable(std::string_view bytes, size_t max_bytes) {
  std::string out;
  while (!bytes.empty()) {
    if (out.size() >= max_bytes) return out + "...";
    const size_t length = utf8_sequence(bytes);
    const auto lead = static_cast<uint8_t>(bytes[0]);
    if (length == 0 || lead < 0x20 || lead == 0x7f)
      out += fmt::format("\\x{:02x}", lead);
    else
      out += bytes.substr(0, length);
    bytes.remove_prefix(length == 0 ? 1 : length);
  }
  return out;
}

}  // namespace pagoda
