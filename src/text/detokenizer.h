// Detokenizer: token ids one at a time to text that is always whole UTF-8.
//
// A character may be spread over several tokens: its first bytes (never more than three) are held
// back until it is complete, or until a byte shows that it never will be; then, and only then, they
// become U+FFFD, one for each longest broken start, as Unicode recommends. Control tokens have no
// text. The joined results of push() and finish() are a pure function of the ids, however they are
// grouped. One object for each answer, on one thread; borrows the Tokenizer.
#pragma once

#include <cstdint>
#include <string>

#include "text/tokenizer.h"

namespace pagoda {

class Detokenizer {
 public:
  // Whether the first id starts a text, whose first space may be the tokenizer's own and is left
  // out, or continues a prompt.
  enum class Start : uint8_t { of_text, after_prompt };

  explicit Detokenizer(const Tokenizer& tokenizer,
                       Start start = Start::after_prompt,
                       SpecialTokens special = SpecialTokens::skip)
      : tokenizer_(tokenizer),
        special_(special),
        drops_space_(start == Start::of_text && tokenizer.strips_first_space()) {}

  // The text that this token completes; often "".
  std::string push(int32_t id);
  // The end: bytes of a character that was cut off are left out. Ready for another text that
  // continues a prompt.
  void finish() { held_.clear(); }
  // Bytes held back, 0..3.
  size_t num_held_bytes() const { return held_.size(); }

 private:
  const Tokenizer& tokenizer_;
  SpecialTokens special_;
  bool drops_space_;
  std::string held_;
};

}  // namespace pagoda
