// Any bytes as a tokenizer.json are loaded or refused with an Error; what is loaded has the size
// that was planned, and encodes and decodes strings without failing.
#include "base/error.h"
#include "fuzz.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"

using namespace pagoda;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::string kTexts[] = {"",
                                       "a",
                                       " a",
                                       "  a",
                                       "\na",
                                       std::string("a\0b", 3),
                                       "the the",
                                       "Hello, world!",
                                       "12345",
                                       "it's we'LL",
                                       "<s></s>",
                                       "<0x41>",
                                       "\xE4\xBD\xA0\xE5\xA5\xBD",
                                       "e\xCC\x81",
                                       "\xF0\x9F\x98\x80",
                                       "\xFF\xFE\x80",
                                       "\xE2\x96\x81",
                                       " \t\r\n \n",
                                       std::string(300, 'a'),
                                       std::string(300, ' ')};
  Metadata metadata;
  metadata.insert("tokenizer.json", std::string_view(reinterpret_cast<const char*>(data), size));
  HostAllocator allocator;
  try {
    const int64_t planned = Tokenizer::vocabulary_bytes(metadata);
    const Tokenizer tokenizer(metadata, allocator);
    FUZZ_CHECK(allocator.allocated(MemoryTag::vocabulary) == planned);
    for (const std::string& text : kTexts) {
      for (const bool special : {false, true}) {
        const auto ids = tokenizer.encode(text, {.add_bos = true, .parse_special = special});
        Detokenizer detokenizer(tokenizer);
        for (const int32_t id : ids) {
          FUZZ_CHECK(id >= 0 && id < tokenizer.vocab_size());
          detokenizer.push(id);
        }
        tokenizer.decode(ids);
      }
    }
  } catch (const Error& e) {
    FUZZ_CHECK(e.kind().starts_with("tokenizer."));
  }
  return 0;
}
