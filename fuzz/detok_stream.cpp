// Bytes as token ids, one at a time: the text is always whole UTF-8, at most three bytes are held
// back, it equals decoding everything at once and replacing what is broken, and control tokens
// change nothing.
#include "fuzz.h"
#include "text/detokenizer.h"
#include "text/test_vocabulary.h"
#include "text/unicode.h"

using namespace pagoda;

namespace {

bool is_whole_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const Utf8Start start = inspect_utf8(text, at);
    if (start.length == 0) return false;
    at += start.length;
  }
  return true;
}

// Broken starts become U+FFFD, one each; a start that the end cuts off is left out.
std::string replace_broken(std::string_view bytes) {
  std::string text;
  for (size_t at = 0; at < bytes.size();) {
    const Utf8Start start = inspect_utf8(bytes, at);
    if (start.cut_off) break;
    if (start.length > 0) {
      text += bytes.substr(at, start.length);
    } else {
      text += "\xEF\xBF\xBD";
    }
    at += start.length > 0 ? start.length : start.broken;
  }
  return text;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static HostAllocator allocator;
  static const Tokenizer tokenizer(TestVocabulary::byte_level().metadata(), allocator);
  static const int32_t end = tokenizer.find("<|end|>");
  Detokenizer detokenizer(tokenizer);
  std::string text;
  for (size_t i = 0; i < size; i++) {
    const std::string more = detokenizer.push(data[i]);
    FUZZ_CHECK(is_whole_utf8(more));
    FUZZ_CHECK(detokenizer.num_held_bytes() <= 3);
    if (data[i] % 7 == 0) FUZZ_CHECK(detokenizer.push(end).empty());
    text += more;
  }
  detokenizer.finish();
  FUZZ_CHECK(detokenizer.num_held_bytes() == 0);
  FUZZ_CHECK(text == replace_broken({reinterpret_cast<const char*>(data), size}));
  return 0;
}
