#include "text/normalize.h"

#include <utf8proc.h>

#include <cstdlib>
#include <memory>

#include "base/error.h"
#include "text/unicode.h"

namespace pagoda {

bool normalize_nfc(std::string_view text, std::string& out) {
  std::string result;
  size_t at = 0;
  while (at < text.size()) {
    const size_t begin = at;
    while (at < text.size()) {
      const Utf8Start start = inspect_utf8(text, at);
      if (start.length == 0) break;
      at += start.length;
    }
    if (at > begin) {
      utf8proc_uint8_t* bytes = nullptr;
      const utf8proc_ssize_t size =
          utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data() + begin),
                       static_cast<utf8proc_ssize_t>(at - begin),
                       &bytes,
                       static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
      const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(bytes, &std::free);
      if (size < 0) throw Error("memory.alloc_failed", "NFC: {}", utf8proc_errmsg(size));
      result.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(size));
    }
    if (at < text.size()) result += text[at++];
  }
  if (result == text) return false;
  out = std::move(result);
  return true;
}

}  // namespace pagoda
