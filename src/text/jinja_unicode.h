// The few Unicode rules that Python's str has and the template interpreter needs: code points in
// valid UTF-8, white space, case, printability.
//
// All functions but valid_utf8 want valid UTF-8; the interpreter checks text once, where it enters.
// Case mapping is one code point to one (utf8proc), but for U+00DF, whose upper case is "SS".
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace pagoda::jinja {

bool valid_utf8(std::string_view text);
// The code point at byte *pos; moves *pos behind it.
uint32_t next_char(std::string_view text, size_t* pos);
void append_char(std::string* out, uint32_t code);
int64_t num_chars(std::string_view text);
// The byte offset of the character with index `chars` (text.size() when there are fewer).
size_t byte_offset(std::string_view text, int64_t chars);

bool is_space(uint32_t code);      // str.isspace
bool is_printable(uint32_t code);  // str.isprintable
bool is_alpha(uint32_t code);
bool is_decimal(uint32_t code);
bool is_upper(uint32_t code);
bool is_lower(uint32_t code);
std::string to_upper(std::string_view text);
std::string to_lower(std::string_view text);

// Where the text between leading and trailing white space begins and ends.
size_t skip_space(std::string_view text);
size_t end_without_space(std::string_view text);

}  // namespace pagoda::jinja
