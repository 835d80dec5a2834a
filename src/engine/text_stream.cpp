#include "engine/text_stream.h"

#include "text/detokenizer.h"

namespace pagoda {

namespace {

class DetokenizedText final : public TextStream {
 public:
  explicit DetokenizedText(const Tokenizer& tokenizer) : detokenizer_(tokenizer) {}
  void append(int32_t token, std::string& text) override { text += detokenizer_.push(token); }
  void finish(std::string&) override { detokenizer_.finish(); }

 private:
  Detokenizer detokenizer_;
};

}  // namespace

TextStreamFactory text_streams(const Tokenizer& tokenizer) {
  return [&tokenizer](const Request&) { return std::make_unique<DetokenizedText>(tokenizer); };
}

}  // namespace pagoda
