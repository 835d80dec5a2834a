// PreTokenizer: cuts text into the pieces that BPE merges inside of.
//
// A list of stages; each cuts the pieces of the one before. The patterns that models share (GPT-2's
// and the LLaMA 3 family's) are scanners written by hand, linear in the text; any other pattern is
// a PCRE2 expression with a bounded amount of work (regex_splitter.h). Stages never drop a byte: a
// text is the concatenation of its pieces. A pattern's look-ahead sees its piece's end as the end
// of the text, as in Hugging Face tokenizers.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace pagoda {

class RegexSplitter;

struct PreTokenizerStage {
  // gpt2:   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
  // llama3: (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|
  //          ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
  // digits: each character of \p{N} alone, or each run of them
  // lines:  [^\n]+|[\n]+
  // marker: a piece starts at each space (SentencePiece words)
  enum class Kind : uint8_t { gpt2, llama3, digits, lines, marker, regex };
  // What becomes of a match of the expression: a piece of its own, or joined to a neighbour.
  enum class Matches : uint8_t { isolated, merged_with_previous, merged_with_next, contiguous };

  Kind kind = Kind::gpt2;
  bool single_digits = false;   // gpt2: digits are cut out first, one by one; digits: one by one
  int max_digits = 3;           // llama3: \p{N}{1,max}
  bool marks_in_words = false;  // llama3: [\p{L}\p{M}] for \p{L}
  std::string pattern = {};     // regex
  Matches matches = Matches::isolated;
};

struct PreTokenizerSpec {
  std::vector<PreTokenizerStage> stages;
};

// What GGUF's `tokenizer.ggml.pre` stands for (llama.cpp, src/llama-vocab.cpp). A name that is not
// known gives the stages of "default".
struct GgufPreTokenizer {
  PreTokenizerSpec spec;
  bool known = true;
  bool whole_piece_first = false;
  bool add_bos = false;  // unless the file says otherwise
};
GgufPreTokenizer gguf_pre_tokenizer(std::string_view name);
// A stage for a pattern from tokenizer.json: a scanner where the pattern is one of theirs.
PreTokenizerStage stage_for_pattern(std::string_view pattern);

class PreTokenizer {
 public:
  // Throws "tokenizer.invalid" for an expression that does not compile.
  explicit PreTokenizer(const PreTokenizerSpec& spec);
  ~PreTokenizer();
  PreTokenizer(PreTokenizer&&) noexcept;

  // Writes the end of each piece, ascending, the last one text.size(). No pieces for "".
  void split(std::string_view text, std::vector<uint32_t>& ends) const;

 private:
  std::vector<PreTokenizerStage> stages_;
  std::vector<std::unique_ptr<RegexSplitter>> regexes_;  // one for each stage, null for scanners
};

}  // namespace pagoda
