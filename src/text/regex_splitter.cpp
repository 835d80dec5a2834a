#include "text/regex_splitter.h"

#include <algorithm>

#include "base/error.h"
#include "text/unicode.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace pagoda {
namespace {

constexpr size_t kFirstWindow = 4096;
constexpr size_t kJitStackStart = 32 << 10, kJitStackMax = 1 << 20;

template <auto Free>
struct Deleter {
  template <typename T>
  void operator()(T* p) const {
    Free(p);
  }
};
using Code = std::unique_ptr<pcre2_code, Deleter<pcre2_code_free>>;
using MatchData = std::unique_ptr<pcre2_match_data, Deleter<pcre2_match_data_free>>;
using MatchContext = std::unique_ptr<pcre2_match_context, Deleter<pcre2_match_context_free>>;
using JitStack = std::unique_ptr<pcre2_jit_stack, Deleter<pcre2_jit_stack_free>>;

bool is_continuation(char c) {
  return (static_cast<uint8_t>(c) & 0xC0) == 0x80;
}

}  // namespace

struct RegexSplitter::Compiled {
  Code code;
  bool has_jit = false;
};

struct RegexSplitter::Session {
  MatchData data;
  MatchContext context;
  JitStack stack;
  int64_t budget = 0;

  Session(const Compiled& compiled, size_t text_bytes)
      : data(pcre2_match_data_create_from_pattern(compiled.code.get(), nullptr)),
        context(pcre2_match_context_create(nullptr)),
        budget(kWorkPerByte * static_cast<int64_t>(text_bytes + kFirstWindow)) {
    if (!data || !context) throw Error("memory.alloc_failed", "PCRE2: no memory to match");
    pcre2_set_match_limit(context.get(), kMatchLimit);
    if (!compiled.has_jit) return;
    stack.reset(pcre2_jit_stack_create(kJitStackStart, kJitStackMax, nullptr));
    pcre2_jit_stack_assign(context.get(), nullptr, stack.get());
  }
};

RegexSplitter::RegexSplitter(const std::string& pattern) : compiled_(std::make_unique<Compiled>()) {
  int error = 0;
  PCRE2_SIZE place = 0;
  compiled_->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()),
                                      pattern.size(),
                                      PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C,
                                      &error,
                                      &place,
                                      nullptr));
  if (!compiled_->code) {
    PCRE2_UCHAR message[256] = {};
    pcre2_get_error_message(error, message, sizeof message);
    throw Error("tokenizer.invalid",
                "pre_tokenizer: the pattern \"{}\" does not compile at byte {}: {}",
                pattern,
                place,
                reinterpret_cast<const char*>(message));
  }
  compiled_->has_jit =
      pcre2_jit_compile(compiled_->code.get(), PCRE2_JIT_COMPLETE | PCRE2_JIT_PARTIAL_HARD) == 0;
}

RegexSplitter::~RegexSplitter() = default;

void RegexSplitter::EndSession::operator()(Session* session) const {
  delete session;
}

RegexSplitter::SessionPtr RegexSplitter::start(size_t text_bytes) const {
  return SessionPtr(new Session(*compiled_, text_bytes));
}

size_t RegexSplitter::find_all(Session& session,
                               std::string_view text,
                               std::vector<Match>& matches) const {
  for (size_t begin = 0; begin < text.size();) {
    size_t end = begin;
    while (end < text.size()) {
      const Utf8Start start = inspect_utf8(text, end);
      if (start.length == 0) break;
      end += start.length;
    }
    const size_t reached = find_in_valid(session, text.substr(begin, end - begin), begin, matches);
    if (reached < end - begin) return begin + reached;
    begin = end + (end < text.size());
  }
  return text.size();
}

size_t RegexSplitter::find_in_valid(Session& session,
                                    std::string_view text,
                                    size_t base,
                                    std::vector<Match>& matches) const {
  size_t from = 0, window = kFirstWindow;
  while (from < text.size()) {
    size_t end = std::min(text.size(), from + window);
    while (end < text.size() && is_continuation(text[end])) end--;
    const uint32_t options =
        PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY | (end < text.size() ? PCRE2_PARTIAL_HARD : 0);
    const int rc = pcre2_match(compiled_->code.get(),
                               reinterpret_cast<PCRE2_SPTR>(text.data()),
                               end,
                               from,
                               options,
                               session.data.get(),
                               session.context.get());
    if (rc == PCRE2_ERROR_PARTIAL || (rc == PCRE2_ERROR_NOMATCH && end < text.size())) {
      // A partial match starts no later than the first match there can be: look again from there.
      session.budget -= static_cast<int64_t>(end - from);
      if (session.budget < 0) return from;
      if (rc == PCRE2_ERROR_NOMATCH) {
        from = end;
      } else {
        window *= 4;
      }
      continue;
    }
    if (rc == PCRE2_ERROR_NOMATCH) return text.size();
    if (rc < 0) return from;
    const PCRE2_SIZE* span = pcre2_get_ovector_pointer(session.data.get());
    if (span[1] <= from) return from;  // \K can put a match anywhere
    const size_t match_begin = std::max(span[0], from);
    matches.push_back(
        {static_cast<uint32_t>(base + match_begin), static_cast<uint32_t>(base + span[1])});
    session.budget -= static_cast<int64_t>(span[1] - from);
    if (session.budget < 0) return span[1];
    from = span[1];
    window = kFirstWindow;
  }
  return text.size();
}

}  // namespace pagoda
