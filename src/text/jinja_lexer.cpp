#include "text/jinja_lexer.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "base/error.h"
#include "text/jinja_unicode.h"

namespace pagoda::jinja {
namespace {

bool is_name_start(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) || c == '_';
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_name(char c) {
  return is_name_start(c) || is_digit(c);
}

// "\r\n" and "\r" become "\n"; one newline at the very end goes.
std::string normalise(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
    } else {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string source) : source_(std::move(source)) {}

  std::vector<Token> run() {
    while (pos_ < source_.size()) {
      const size_t tag = find_tag(pos_);
      if (tag == std::string::npos) {
        add(TokenKind::text, source_.substr(pos_));
        break;
      }
      const char kind = source_[tag + 1];
      size_t inside = tag + 2;
      char sign = 0;
      if (inside < source_.size() && (source_[inside] == '-' || source_[inside] == '+')) {
        sign = source_[inside++];
      }
      add_text_before(tag, sign, kind != '{');
      pos_ = inside;
      if (kind == '#') {
        comment();
      } else if (kind == '%' && at_word("raw")) {
        raw();
      } else {
        code(kind == '{');
      }
    }
    add(TokenKind::end, "");
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail(std::string_view what) const {
    throw Error("template.syntax", "line {}: {}", line_, what);
  }

  void add(TokenKind kind, std::string text) {
    if (kind == TokenKind::text && text.empty()) return;
    const int line = line_;
    if (kind == TokenKind::text) count_lines(text);
    tokens_.push_back({kind, std::move(text), line});
  }

  void count_lines(std::string_view text) {
    line_ += static_cast<int>(std::count(text.begin(), text.end(), '\n'));
  }

  size_t find_tag(size_t from) const {
    for (size_t i = source_.find('{', from); i != std::string::npos; i = source_.find('{', i + 1)) {
      if (i + 1 >= source_.size()) break;
      const char c = source_[i + 1];
      if (c == '{' || c == '%' || c == '#') return i;
    }
    return std::string::npos;
  }

  // The text up to a tag: "-" strips white space before it, a block or comment without a sign
  // strips blanks back to the start of its line.
  void add_text_before(size_t tag, char sign, bool may_strip_line) {
    std::string_view text = std::string_view(source_).substr(pos_, tag - pos_);
    const size_t whole = text.size();
    if (sign == '-') {
      text = text.substr(0, end_without_space(text));
    } else if (sign != '+' && may_strip_line) {
      const size_t newline = text.rfind('\n');
      const size_t line_start = newline == std::string_view::npos ? 0 : newline + 1;
      if ((line_start > 0 || at_line_start_) && end_without_space(text) <= line_start) {
        text = text.substr(0, line_start);
      }
    }
    const std::string_view stripped =
        std::string_view(source_).substr(pos_ + text.size(), whole - text.size());
    add(TokenKind::text, std::string(text));
    count_lines(stripped);
  }

  // Is "name" next, but for blanks, in a block that holds nothing else? Leaves pos_ behind it.
  bool at_word(std::string_view word) {
    size_t i = pos_ + skip_space(std::string_view(source_).substr(pos_));
    if (source_.compare(i, word.size(), word) != 0) return false;
    i += word.size();
    i += skip_space(std::string_view(source_).substr(i));
    if (source_.compare(i, 2, "%}") != 0 && source_.compare(i, 3, "-%}") != 0) return false;
    count_lines(std::string_view(source_).substr(pos_, i - pos_));
    pos_ = i;
    return true;
  }

  // At the end of a tag: its sign and what follows it that goes.
  void close_tag(size_t sign_pos, bool trim_newline) {
    const size_t start = pos_;
    pos_ = sign_pos + 2;
    if (source_[sign_pos] == '-') {
      ++pos_;
      pos_ += skip_space(std::string_view(source_).substr(pos_));
    } else if (source_[sign_pos] == '+') {
      ++pos_;
    } else if (trim_newline && pos_ < source_.size() && source_[pos_] == '\n') {
      ++pos_;
    }
    count_lines(std::string_view(source_).substr(start, pos_ - start));
    at_line_start_ = source_[pos_ - 1] == '\n';
  }

  void comment() {
    const size_t end = source_.find("#}", pos_);
    if (end == std::string::npos) fail("a comment has no end");
    const bool sign = end > pos_ && (source_[end - 1] == '-' || source_[end - 1] == '+');
    const size_t sign_pos = sign ? end - 1 : end;
    count_lines(std::string_view(source_).substr(pos_, sign_pos - pos_));
    pos_ = sign_pos;
    close_tag(sign_pos, true);
  }

  void raw() {
    close_tag(pos_, false);
    const size_t start = pos_;
    for (size_t tag = source_.find("{%", start); tag != std::string::npos;
         tag = source_.find("{%", tag + 2)) {
      size_t inside = tag + 2;
      char sign = 0;
      if (inside < source_.size() && (source_[inside] == '-' || source_[inside] == '+')) {
        sign = source_[inside++];
      }
      const size_t word = inside + skip_space(std::string_view(source_).substr(inside));
      if (source_.compare(word, 6, "endraw") != 0) continue;
      size_t end = word + 6;
      end += skip_space(std::string_view(source_).substr(end));
      const bool signed_end = end < source_.size() && (source_[end] == '-' || source_[end] == '+');
      if (source_.compare(signed_end ? end + 1 : end, 2, "%}") != 0) continue;
      add_text_before(tag, sign, true);
      pos_ = end;
      close_tag(end, true);
      return;
    }
    fail("a raw block has no end");
  }

  void code(bool print) {
    add(print ? TokenKind::print_begin : TokenKind::block_begin, "");
    std::string open;  // brackets that wait to be closed
    while (true) {
      skip_blanks();
      if (pos_ >= source_.size()) fail(print ? "'{{' has no '}}'" : "'{%' has no '%}'");
      if (open.empty() && at_end_of_code(print)) break;
      token(&open);
    }
    const char sign = source_[pos_];
    const int line = line_;
    if (print) {
      pos_ = sign == '-' ? pos_ + 3 : pos_ + 2;
      if (sign == '-') {
        const size_t blanks = skip_space(std::string_view(source_).substr(pos_));
        count_lines(std::string_view(source_).substr(pos_, blanks));
        pos_ += blanks;
      }
      at_line_start_ = source_[pos_ - 1] == '\n';
    } else {
      close_tag(pos_, true);
    }
    tokens_.push_back({print ? TokenKind::print_end : TokenKind::block_end, "", line});
  }

  bool at_end_of_code(bool print) const {
    if (print) return source_.compare(pos_, 2, "}}") == 0 || source_.compare(pos_, 3, "-}}") == 0;
    return source_.compare(pos_, 2, "%}") == 0 || source_.compare(pos_, 3, "-%}") == 0 ||
           source_.compare(pos_, 3, "+%}") == 0;
  }

  void skip_blanks() {
    const size_t n = skip_space(std::string_view(source_).substr(pos_));
    count_lines(std::string_view(source_).substr(pos_, n));
    pos_ += n;
  }

  void token(std::string* open) {
    const char c = source_[pos_];
    if (is_name_start(c)) {
      const size_t start = pos_;
      while (pos_ < source_.size() && is_name(source_[pos_])) ++pos_;
      add(TokenKind::name, source_.substr(start, pos_ - start));
    } else if (is_digit(c)) {
      number();
    } else if (c == '\'' || c == '"') {
      string(c);
    } else {
      op(open);
    }
  }

  // Digits with single underscores between them.
  size_t digits(size_t i, bool hex = false) const {
    const auto ok = [&](char c) {
      return hex ? std::isxdigit(static_cast<unsigned char>(c)) != 0 : is_digit(c);
    };
    while (i < source_.size() && (ok(source_[i]) || (source_[i] == '_' && i + 1 < source_.size() &&
                                                     ok(source_[i + 1])))) {
      ++i;
    }
    return i;
  }

  void number() {
    const size_t start = pos_;
    const char next = pos_ + 1 < source_.size() ? source_[pos_ + 1] : '\0';
    if (source_[pos_] == '0' && std::string_view("xXoObB").find(next) != std::string_view::npos &&
        next != '\0') {
      pos_ = digits(pos_ + 2, next == 'x' || next == 'X');
      return add(TokenKind::integer, source_.substr(start, pos_ - start));
    }
    bool real = false;
    size_t i = digits(start);
    if (i + 1 < source_.size() && source_[i] == '.' && is_digit(source_[i + 1])) {
      real = true;
      i = digits(i + 1);
    }
    if (i < source_.size() && (source_[i] == 'e' || source_[i] == 'E')) {
      size_t k = i + 1;
      if (k < source_.size() && (source_[k] == '+' || source_[k] == '-')) ++k;
      if (k < source_.size() && is_digit(source_[k])) {
        real = true;
        i = digits(k);
      }
    }
    pos_ = i;
    std::string text = source_.substr(start, i - start);
    text.erase(std::remove(text.begin(), text.end(), '_'), text.end());
    add(real ? TokenKind::real : TokenKind::integer, std::move(text));
  }

  void string(char quote);
  void escape(std::string* out);

  void op(std::string* open) {
    static constexpr std::string_view kLong[] = {"//", "**", "==", "!=", ">=", "<="};
    static constexpr std::string_view kShort = "+-/*%~[](){}><=.:|,;";
    for (const std::string_view text : kLong) {
      if (source_.compare(pos_, 2, text) == 0) {
        pos_ += 2;
        return add(TokenKind::op, std::string(text));
      }
    }
    const char c = source_[pos_];
    if (kShort.find(c) == std::string_view::npos) fail("a character that starts nothing");
    if (c == '(' || c == '[' || c == '{') {
      open->push_back(c == '(' ? ')' : c == '[' ? ']' : '}');
    } else if (c == ')' || c == ']' || c == '}') {
      if (open->empty() || open->back() != c) fail("a bracket closes what was not opened");
      open->pop_back();
    }
    ++pos_;
    add(TokenKind::op, std::string(1, c));
  }

  const std::string source_;
  size_t pos_ = 0;
  int line_ = 1;
  bool at_line_start_ = true;  // the last tag ended with a newline
  std::vector<Token> tokens_;
};

void Lexer::string(char quote) {
  const int line = line_;
  std::string out;
  for (++pos_; pos_ < source_.size();) {
    const char c = source_[pos_++];
    if (c == quote) {
      tokens_.push_back({TokenKind::string, std::move(out), line});
      return;
    }
    if (c == '\n') ++line_;
    if (c == '\\') {
      escape(&out);
    } else {
      out += c;
    }
  }
  line_ = line;
  fail("a string has no end");
}

// What follows a backslash, by the rules of Python's string literals.
void Lexer::escape(std::string* out) {
  static constexpr std::string_view kFrom = "\\'\"abfnrtv";
  static constexpr std::string_view kTo = "\\'\"\a\b\f\n\r\t\v";
  if (pos_ >= source_.size()) return;
  const char c = source_[pos_++];
  if (c == '\n') {
    ++line_;
    return;
  }
  if (const size_t i = kFrom.find(c); i != std::string_view::npos) {
    *out += kTo[i];
    return;
  }
  const size_t width = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
  uint32_t code = 0;
  if (width > 0) {
    for (size_t k = 0; k < width; ++k, ++pos_) {
      const char h = pos_ < source_.size() ? source_[pos_] : 'z';
      if (!std::isxdigit(static_cast<unsigned char>(h))) fail("a string has a bad \\x or \\u");
      code = code * 16 + static_cast<uint32_t>(is_digit(h) ? h - '0' : (h | 0x20) - 'a' + 10);
    }
    if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) fail("a string has a bad \\u");
    append_char(out, code);
  } else if (c >= '0' && c <= '7') {
    code = static_cast<uint32_t>(c - '0');
    for (int k = 0; k < 2 && pos_ < source_.size() && source_[pos_] >= '0' && source_[pos_] <= '7';
         ++k) {
      code = code * 8 + static_cast<uint32_t>(source_[pos_++] - '0');
    }
    append_char(out, code);
  } else {
    *out += '\\';
    *out += c;
  }
}

}  // namespace

std::vector<Token> tokenize(std::string_view source) {
  if (!valid_utf8(source)) {
    throw Error("template.syntax", "the chat template is not valid UTF-8");
  }
  return Lexer(normalise(source)).run();
}

}  // namespace pagoda::jinja
