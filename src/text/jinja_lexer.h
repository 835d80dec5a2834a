// Lexer: splits a template into text and the tokens inside {{ }} and {% %}, as jinja2 does with
// trim_blocks and lstrip_blocks on and keep_trailing_newline off (the settings that chat templates
// are written for). Comments and raw blocks are done with here.
//
// Works through the whole template at once, without recursion. Errors: "template.syntax".
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pagoda::jinja {

enum class TokenKind {
  text,  // template text to print as it is
  print_begin,
  print_end,
  block_begin,
  block_end,
  name,
  string,   // `text` holds the decoded characters
  integer,  // `text` holds the literal as written
  real,
  op,
  end,
};

struct Token {
  TokenKind kind;
  std::string text;
  int line;
};

std::vector<Token> tokenize(std::string_view source);

}  // namespace pagoda::jinja
