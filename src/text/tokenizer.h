// Tokenizer: text to token ids and back, for byte-level BPE (GPT-2, LLaMA 3, Qwen, SmolLM) and
// SentencePiece-style BPE (LLaMA 2, Gemma), from a GGUF file or a Hugging Face tokenizer.json.
//
// The reference is Hugging Face `tokenizers`, then llama.cpp. Bytes in are bytes tokenised: U+0000
// and bytes that are not UTF-8 pass through. Control tokens ("<|im_end|>") are recognised only
// where the caller says that the text may hold them: in the parts that a chat template wrote.
// Immutable after construction, so any number of threads may share it. Everything of size lies in
// one Buffer under MemoryTag::vocabulary.
//   Tokenizer tokenizer(checkpoint->metadata(), allocator);
//   auto ids = tokenizer.encode("Hello", {.add_bos = tokenizer.adds_bos()});
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/buffer.h"
#include "formats/metadata.h"
#include "text/bpe.h"
#include "text/pre_tokenizer.h"
#include "text/text_part.h"
#include "text/vocabulary.h"

namespace pagoda {

struct EncodeOptions {
  bool add_bos = false;          // exactly one: none is added where the text begins with it
  bool parse_special = false;    // encode() only: control tokens in the text are recognised
  int64_t* num_steps = nullptr;  // counts table look-ups and heap steps, for tests
};

enum class SpecialTokens : uint8_t { skip, keep };

class Tokenizer {
 public:
  // Throws "tokenizer.invalid" naming the component, "tokenizer.unsupported" naming the kind of
  // model, "tokenizer.missing".
  Tokenizer(const Metadata& metadata, Allocator& allocator);
  // What the constructor will allocate, to the byte. Throws as the constructor does.
  static int64_t vocabulary_bytes(const Metadata& metadata);

  // Throws "tokenizer.text_too_long" from 2^31 bytes.
  std::vector<int32_t> encode(std::string_view text, EncodeOptions options = {}) const;
  // Control tokens are recognised in markup alone (rule R10); plain text and markup that holds none
  // are joined before merging, so a border between parts changes no id.
  std::vector<int32_t> encode_parts(std::span<const TextPart> parts,
                                    EncodeOptions options = {}) const;

  // The tokens' bytes, without the space that a SentencePiece-style tokenizer puts before a text.
  // May be cut inside a character (see Detokenizer). Ids outside the vocabulary have no bytes.
  std::string decode(std::span<const int32_t> ids,
                     SpecialTokens special = SpecialTokens::skip) const;
  // The bytes of one token as they are in the middle of a text; control tokens: their name.
  std::string_view token_bytes(int32_t id) const;
  // The token with these bytes, control tokens first; -1: none. Byte tokens are not found.
  int32_t find(std::string_view bytes) const;

  int64_t vocab_size() const { return vocabulary_.size(); }
  bool is_control(int32_t id) const { return vocabulary_.has(id) && vocabulary_.is_control(id); }
  TokenKind kind(int32_t id) const { return vocabulary_.kind(id); }
  int32_t bos() const { return bos_; }        // -1: none
  int32_t eos() const { return eos_; }        // -1: none
  bool adds_bos() const { return add_bos_; }  // what the model's file asks for
  // Tokens that end an answer: eos, eot and what model families call them. Ascending.
  std::span<const int32_t> end_of_generation() const { return end_of_generation_; }
  bool is_end_of_generation(int32_t id) const;
  // True where decode() leaves out a text's first space, as one that encode() put there.
  bool strips_first_space() const { return strips_first_space_; }

 private:
  friend class TextEncoder;
  Tokenizer(const VocabularySpec& spec, Allocator& allocator);
  void collect_end_of_generation(const VocabularySpec& spec);

  Vocabulary vocabulary_;
  PreTokenizer pre_tokenizer_;
  BpeOptions bpe_;
  bool normalize_nfc_ = false;
  SpacePrefix space_prefix_ = SpacePrefix::never;
  bool strips_first_space_ = false;
  std::vector<AddedTokenStrip> strips_;  // ascending ids
  int32_t bos_ = -1, eos_ = -1;
  bool add_bos_ = false;
  std::vector<int32_t> end_of_generation_;
};

}  // namespace pagoda
