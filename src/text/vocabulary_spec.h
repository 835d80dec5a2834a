// VocabularySpec: what a model file says about its tokenizer, checked, but not yet in the tables
// that encoding uses.
//
// One reader for each form makes it: GGUF's `tokenizer.ggml.*` keys and Hugging Face's
// tokenizer.json. It lives only while a Tokenizer is built (or its size is asked for) and borrows
// its strings from the Metadata, or owns them where the file's form had to be undone. Errors:
// "tokenizer.invalid" names the component that is wrong, "tokenizer.unsupported" what is not known.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/metadata.h"
#include "text/pre_tokenizer.h"

namespace pagoda {

// The numbers are GGUF's token types; there, 0 is undefined. Here it is a token that a byte-level
// vocabulary has, but with a character outside the alphabet, so that no text becomes it.
enum class TokenKind : uint8_t {
  unreachable = 0,
  normal = 1,
  unknown = 2,
  control = 3,
  user_defined = 4,
  unused = 5,
  byte = 6
};

// How a token's text spells its bytes: byte_level: each character of GPT-2's printable alphabet is
// one byte. space_marker: UTF-8 with U+2581 for a space, and "<0xNN>" for the byte NN.
enum class TokenSpelling : uint8_t { byte_level, space_marker };

// Where a SentencePiece-style tokenizer puts a space that is not in the text: before each stretch
// of text between added tokens, before those that start with none, or before the first only.
enum class SpacePrefix : uint8_t { never, always, where_missing, first_where_missing };

// Spaces next to an added token that it swallows (Hugging Face's lstrip, rstrip).
struct AddedTokenStrip {
  int32_t id = 0;
  bool left = false;
  bool right = false;
};

struct VocabularySpec {
  TokenSpelling spelling = TokenSpelling::byte_level;
  // Merges are ranked by their place in `merges`; where there are none, by the merged token's score
  // (SentencePiece).
  bool merges_by_score = false;
  std::vector<std::string_view> tokens;  // by id; empty: a hole in the id space
  std::vector<TokenKind> kinds;          // one for each token
  std::vector<float> scores;             // one for each token when merges_by_score, else empty
  std::vector<std::pair<std::string_view, std::string_view>> merges;
  std::vector<AddedTokenStrip> strips;

  PreTokenizerSpec pre_tokenizer;
  bool whole_piece_first =
      false;  // a piece that is a token as a whole is not merged (ignore_merges)
  bool normalize_nfc = false;
  SpacePrefix space_prefix = SpacePrefix::never;
  bool strips_first_space = false;  // decoding leaves out a first space, as one that was put there

  int32_t bos = -1, eos = -1, eot = -1, unknown = -1;  // ids, or -1
  bool fuse_unknown = false;  // one unknown token for a run of unknown characters
  bool add_bos = false;
  std::vector<int32_t> more_end_of_generation;

  std::deque<std::string> owned;  // texts that the file spells differently
};

VocabularySpec read_vocabulary_spec(const Metadata& metadata);
VocabularySpec read_gguf_vocabulary(const Metadata& metadata);
VocabularySpec read_json_vocabulary(const Metadata& metadata);

}  // namespace pagoda
