#include "text/detokenizer.h"

#include "text/unicode.h"

namespace pagoda {

std::string Detokenizer::push(int32_t id) {
  if (special_ == SpecialTokens::skip && tokenizer_.is_control(id)) return {};
  std::string_view bytes = tokenizer_.token_bytes(id);
  if (drops_space_ && !bytes.empty()) {
    if (bytes[0] == ' ') bytes.remove_prefix(1);
    drops_space_ = false;
  }
  held_ += bytes;
  std::string text;
  size_t at = 0;
  while (at < held_.size()) {
    const Utf8Start start = inspect_utf8(held_, at);
    if (start.cut_off) break;
    if (start.length > 0) {
      text.append(held_, at, start.length);
      at += start.length;
    } else {
      append_utf8(text, 0xFFFD);
      at += start.broken;
    }
  }
  held_.erase(0, at);
  return text;
}

}  // namespace pagoda
