// Encoding any bytes, with tokenizers of both kinds: decoding gives the bytes back, the ids are
// those of the whole whatever its parts are, control tokens come from markup alone, and the steps
// are bounded by the text. The first byte picks the tokenizer and where the text is cut in parts.
#include <algorithm>

#include "base/error.h"
#include "fuzz.h"
#include "text/test_vocabulary.h"
#include "text/tokenizer.h"

using namespace pagoda;

namespace {

struct World {
  HostAllocator allocator;
  Tokenizer byte_level{TestVocabulary::byte_level().metadata(), allocator};
  Tokenizer sentencepiece{TestVocabulary::sentencepiece(sentencepiece_pieces()).metadata(),
                          allocator};
};

int64_t log2_of(size_t n) {
  int64_t bits = 1;
  while (n >>= 1) bits++;
  return bits;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const World world;
  if (size == 0) return 0;
  const bool is_byte_level = data[0] % 2 == 0;
  const Tokenizer& tokenizer = is_byte_level ? world.byte_level : world.sentencepiece;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);

  int64_t steps = 0;
  const auto ids = tokenizer.encode(text, {.num_steps = &steps});
  FUZZ_CHECK(steps <= 16 * static_cast<int64_t>(text.size() + 1) * log2_of(text.size() + 2));
  for (const int32_t id : ids) FUZZ_CHECK(id >= 0 && id < tokenizer.vocab_size());
  FUZZ_CHECK(
      std::none_of(ids.begin(), ids.end(), [&](int32_t i) { return tokenizer.is_control(i); }));
  if (is_byte_level || text.find("\xE2\x96\x81") == std::string::npos) {
    FUZZ_CHECK(tokenizer.decode(ids) == text);
  }

  // A cut between two plain parts changes nothing, unless it cuts U+2581.
  const size_t cut = data[0] / 2 % (text.size() + 1);
  const TextPart plain[] = {{text.substr(0, cut), TextOrigin::plain},
                            {text.substr(cut), TextOrigin::plain}};
  if (is_byte_level) FUZZ_CHECK(tokenizer.encode_parts(plain) == ids);
  const TextPart mixed[] = {{text.substr(0, cut), TextOrigin::markup},
                            {text.substr(cut), TextOrigin::plain}};
  const auto mixed_ids = tokenizer.encode_parts(mixed, {.add_bos = true});
  if (is_byte_level) {
    FUZZ_CHECK(tokenizer.decode(mixed_ids, SpecialTokens::keep).ends_with(text.substr(cut)));
  }
  return 0;
}
