#include "text/pre_tokenizer.h"

#include <algorithm>

#include "text/regex_splitter.h"
#include "text/unicode.h"

namespace pagoda {
namespace {

// Reads a piece character by character; past its end stands a space that is not there (kEnd).
class Cursor {
 public:
  explicit Cursor(std::string_view text, size_t at) : text_(text), at_(at) { read(); }
  size_t at() const { return at_; }
  bool done() const { return at_ >= text_.size(); }
  uint32_t value() const { return now_.value; }
  CharClass char_class() const { return class_; }
  void advance() {
    at_ += now_.bytes;
    read();
  }
  // The byte `ahead` bytes on; 0 past the end.
  char byte(size_t ahead) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }

 private:
  void read() {
    if (done()) return;
    now_ = decode_utf8(text_, at_);
    class_ = pagoda::char_class(now_.value);
  }
  std::string_view text_;
  size_t at_;
  CodePoint now_;
  CharClass class_ = CharClass::other;
};

bool is_line_break(uint32_t c) {
  return c == '\r' || c == '\n';
}

// The bytes of 's 't 're 've 'm 'll 'd at the cursor, or 0.
size_t contraction_size(const Cursor& c, bool any_case) {
  if (c.byte(0) != '\'') return 0;
  const auto letter = [&](size_t i) {
    const char b = c.byte(i);
    return any_case && b >= 'A' && b <= 'Z' ? static_cast<char>(b - 'A' + 'a') : b;
  };
  const char a = letter(1), b = letter(2);
  if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
  if ((a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l')) return 3;
  // U+017F, the long s, is an s in any case.
  if (any_case && c.byte(1) == '\xC5' && c.byte(2) == '\xBF') return 3;
  return 0;
}

// \s+(?!\S)|\s+ from a cursor on a space: all of a run at the end, else all but its last character,
// or that one alone.
size_t space_run_end(Cursor c) {
  size_t last = c.at();
  int count = 0;
  while (!c.done() && c.char_class() == CharClass::space) {
    last = c.at();
    count++;
    c.advance();
  }
  return c.done() || count == 1 ? c.at() : last;
}

size_t class_run_end(Cursor c, CharClass wanted) {
  while (!c.done() && c.char_class() == wanted) c.advance();
  return c.at();
}

bool is_symbolic(const Cursor& c) {
  return c.char_class() != CharClass::letter && c.char_class() != CharClass::number &&
         c.char_class() != CharClass::space;
}

// With `single_digits` a digit ends the piece before it, as if it had been cut out first.
size_t next_gpt2(std::string_view text, size_t at, bool single_digits) {
  Cursor c(text, at);
  if (const size_t n = contraction_size(c, false); n > 0) return at + n;
  if (single_digits && c.char_class() == CharClass::number) {
    c.advance();
    return c.at();
  }
  Cursor head = c;
  if (c.byte(0) == ' ') {
    head.advance();
    if (head.done()) return head.at();
  }
  switch (head.char_class()) {
    case CharClass::letter:
      return class_run_end(head, CharClass::letter);
    case CharClass::number:
      if (single_digits) return head.at();  // the space before a digit stands alone
      return class_run_end(head, CharClass::number);
    case CharClass::space: {
      const size_t end = space_run_end(c);
      if (!single_digits) return end;
      const Cursor after(text, class_run_end(c, CharClass::space));
      return after.done() || after.char_class() == CharClass::number ? after.at() : end;
    }
    default:
      while (!head.done() && is_symbolic(head)) head.advance();
      return head.at();
  }
}

// \s*[\r\n]+|\s+(?!\S)|\s+ from a cursor on a space.
size_t llama3_space_end(Cursor c) {
  size_t after_break = 0, last = c.at(), count = 0;
  while (!c.done() && c.char_class() == CharClass::space) {
    last = c.at();
    const bool breaks = is_line_break(c.value());
    c.advance();
    count++;
    if (breaks) after_break = c.at();
  }
  if (after_break > 0) return after_break;
  return c.done() || count == 1 ? c.at() : last;
}

size_t next_llama3(std::string_view text, size_t at, const PreTokenizerStage& stage) {
  const auto in_word = [&](const Cursor& c) {
    return c.char_class() == CharClass::letter ||
           (stage.marks_in_words && c.char_class() == CharClass::mark);
  };
  Cursor c(text, at);
  if (const size_t n = contraction_size(c, true); n > 0) return at + n;
  // [^\r\n\p{L}\p{N}]?\p{L}+
  Cursor head = c;
  if (!in_word(head) && head.char_class() != CharClass::number && !is_line_break(head.value())) {
    head.advance();
  }
  if (!head.done() && in_word(head)) {
    while (!head.done() && in_word(head)) head.advance();
    return head.at();
  }
  if (c.char_class() == CharClass::number) {
    for (int n = 0; n < stage.max_digits && !c.done() && c.char_class() == CharClass::number; n++) {
      c.advance();
    }
    return c.at();
  }
  //  ?[^\s\p{L}\p{N}]+[\r\n]*
  Cursor symbols = c;
  if (c.byte(0) == ' ') symbols.advance();
  const auto symbolic = [&](const Cursor& s) { return is_symbolic(s) && !in_word(s); };
  if (!symbols.done() && symbolic(symbols)) {
    while (!symbols.done() && symbolic(symbols)) symbols.advance();
    while (!symbols.done() && is_line_break(symbols.value())) symbols.advance();
    return symbols.at();
  }
  return llama3_space_end(c);
}

size_t next_digits(std::string_view text, size_t at, bool single) {
  Cursor c(text, at);
  const bool digits = c.char_class() == CharClass::number;
  do {
    c.advance();
  } while (!c.done() && (c.char_class() == CharClass::number) == digits && !(digits && single));
  return c.at();
}

size_t next_line(std::string_view text, size_t at) {
  const size_t end = text[at] == '\n' ? text.find_first_not_of('\n', at) : text.find('\n', at);
  return std::min(end, text.size());
}

size_t next_marked(std::string_view text, size_t at) {
  return std::min(text.find(' ', at + 1), text.size());
}

size_t scan(std::string_view text, size_t at, const PreTokenizerStage& stage) {
  switch (stage.kind) {
    case PreTokenizerStage::Kind::gpt2:
    case PreTokenizerStage::Kind::regex:  // what an expression gave up on
      return next_gpt2(text, at, stage.single_digits);
    case PreTokenizerStage::Kind::llama3:
      return next_llama3(text, at, stage);
    case PreTokenizerStage::Kind::digits:
      return next_digits(text, at, stage.single_digits);
    case PreTokenizerStage::Kind::lines:
      return next_line(text, at);
    case PreTokenizerStage::Kind::marker:
      return next_marked(text, at);
  }
  return text.size();
}

// The ends of the pieces that matches and the text between them make.
void cut_at_matches(const std::vector<RegexSplitter::Match>& matches,
                    PreTokenizerStage::Matches rule,
                    uint32_t size,
                    uint32_t base,
                    std::vector<uint32_t>& ends) {
  using Matches = PreTokenizerStage::Matches;
  const auto cut = [&](uint32_t at) {
    if (at > 0 && (ends.empty() || ends.back() < base + at)) ends.push_back(base + at);
  };
  for (size_t i = 0; i < matches.size(); i++) {
    const bool touches_last = i > 0 && matches[i - 1].end == matches[i].begin;
    if (rule == Matches::isolated || rule == Matches::merged_with_next ||
        (rule == Matches::contiguous && !touches_last)) {
      cut(matches[i].begin);
    }
    const bool touches_next = i + 1 < matches.size() && matches[i + 1].begin == matches[i].end;
    if (rule == Matches::isolated || rule == Matches::merged_with_previous ||
        (rule == Matches::contiguous && !touches_next)) {
      cut(matches[i].end);
    }
  }
  cut(size);
}

// One stage at work on the pieces of one text.
class StageRun {
 public:
  StageRun(const PreTokenizerStage& stage, const RegexSplitter* regex, size_t text_bytes)
      : stage_(stage), regex_(regex) {
    if (regex != nullptr) session_ = regex->start(text_bytes);
  }

  void cut(std::string_view piece, uint32_t base, std::vector<uint32_t>& ends) {
    size_t at = 0;
    if (regex_ != nullptr) {
      matches_.clear();
      at = regex_->find_all(*session_, piece, matches_);
      cut_at_matches(matches_, stage_.matches, static_cast<uint32_t>(at), base, ends);
    }
    while (at < piece.size()) {
      at = scan(piece, at, stage_);
      ends.push_back(base + static_cast<uint32_t>(at));
    }
  }

 private:
  const PreTokenizerStage& stage_;
  const RegexSplitter* regex_;
  RegexSplitter::SessionPtr session_;
  std::vector<RegexSplitter::Match> matches_;
};

}  // namespace

PreTokenizerStage stage_for_pattern(std::string_view pattern) {
  constexpr std::string_view kGpt2 =
      R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
  constexpr std::string_view kContractions = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|";
  constexpr std::string_view kDigits[] = {R"(\p{N}{1,3})", R"(\p{N})"};
  struct Words {
    std::string_view before_digits, after_digits;
    bool marks;
  };
  constexpr Words kWords[] = {{R"([^\r\n\p{L}\p{N}]?\p{L}+|)",
                               R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
                               false},
                              {R"([^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|)",
                               R"(| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
                               true}};
  using Kind = PreTokenizerStage::Kind;
  if (pattern == kGpt2) return {.kind = Kind::gpt2};
  for (const Words& words : kWords) {
    for (const std::string_view digits : kDigits) {
      std::string known(kContractions);
      known.append(words.before_digits).append(digits).append(words.after_digits);
      if (pattern != known) continue;
      return {.kind = Kind::llama3,
              .max_digits = digits == kDigits[0] ? 3 : 1,
              .marks_in_words = words.marks};
    }
  }
  return {.kind = Kind::regex, .pattern = std::string(pattern)};
}

PreTokenizer::PreTokenizer(const PreTokenizerSpec& spec) : stages_(spec.stages) {
  for (const PreTokenizerStage& stage : stages_) {
    regexes_.push_back(stage.kind == PreTokenizerStage::Kind::regex
                           ? std::make_unique<RegexSplitter>(stage.pattern)
                           : nullptr);
  }
}

PreTokenizer::~PreTokenizer() = default;
PreTokenizer::PreTokenizer(PreTokenizer&&) noexcept = default;

void PreTokenizer::split(std::string_view text, std::vector<uint32_t>& ends) const {
  ends.clear();
  if (text.empty()) return;
  ends.push_back(static_cast<uint32_t>(text.size()));
  std::vector<uint32_t> before;
  for (size_t i = 0; i < stages_.size(); i++) {
    StageRun run(stages_[i], regexes_[i].get(), text.size());
    before.swap(ends);
    ends.clear();
    uint32_t begin = 0;
    for (const uint32_t end : before) {
      run.cut(text.substr(begin, end - begin), begin, ends);
      begin = end;
    }
  }
}

}  // namespace pagoda
