// How a vocabulary's file spells the bytes of a token, undone (see TokenSpelling).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "text/vocabulary_spec.h"

namespace pagoda {

// Writes the token's bytes (never more than text.size()) to `out` and gives their count.
// Byte-level: a token with a character outside GPT-2's alphabet, a control token and a user-defined
// one are their own text.
uint32_t spell_token(std::string_view text, TokenKind kind, TokenSpelling spelling, char* out);
// The count alone.
uint32_t spelled_size(std::string_view text, TokenKind kind, TokenSpelling spelling);

// Whether every character is of GPT-2's alphabet.
bool is_in_alphabet(std::string_view text);

// The byte of "<0xNN>", or -1 for any other text.
int parse_byte_token(std::string_view text);

// Text with U+2581 replaced by a space, as a SentencePiece-style model sees it.
bool has_space_marker(std::string_view text);
void replace_space_markers(std::string_view text, std::string& out);

}  // namespace pagoda
