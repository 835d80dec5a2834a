// RegexSplitter: cuts text at the matches of a PCRE2 expression, in an amount of work that is
// linear in the text whatever the expression is.
//
// Compiled once (JIT where the platform has it), immutable and shared by threads afterwards; each
// call brings its own match data and JIT stack. A match sees a window of the text that grows only
// when the match needs to look past its end; all growth is charged to a budget of kWorkPerByte for
// each byte of text. When that is spent, or PCRE2's match or stack limit is met, the rest of the
// text is left to the caller's fallback. Bytes that are not UTF-8 match nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace pagoda {

class RegexSplitter {
 public:
  static constexpr int64_t kWorkPerByte = 16;
  static constexpr uint32_t kMatchLimit = 1'000'000;

  struct Match {
    uint32_t begin, end;
  };

  // Throws "tokenizer.invalid" naming the pattern and the place that does not compile.
  explicit RegexSplitter(const std::string& pattern);
  ~RegexSplitter();
  RegexSplitter(const RegexSplitter&) = delete;
  RegexSplitter& operator=(const RegexSplitter&) = delete;

  // What one caller's matching needs beside the expression, and the budget of all its text.
  struct Session;
  struct EndSession {
    void operator()(Session* session) const;
  };
  using SessionPtr = std::unique_ptr<Session, EndSession>;
  SessionPtr start(size_t text_bytes) const;

  // Appends the non-empty matches, in order. Returns where it gave up: text.size() when it did not.
  size_t find_all(Session& session, std::string_view text, std::vector<Match>& matches) const;

 private:
  struct Compiled;
  size_t find_in_valid(Session& session,
                       std::string_view text,
                       size_t base,
                       std::vector<Match>& matches) const;
  std::unique_ptr<Compiled> compiled_;
};

}  // namespace pagoda
