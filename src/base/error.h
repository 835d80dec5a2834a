// Bad input or a bad environment, thrown as Error; a bug of ours, stopped by PG_CHECK.
//
// An Error carries a kind ("gguf.truncated", "kv.alloc_failed": area, dot, what) for programs and a
// message for people: what was expected, what was found and where, and a setting that would work
// where there is one. It is caught in four places only: HTTP handler, C API, CLI main, and the
// engine loop. PG_CHECK is always on, prints the values and ends the process with status 70.
// Outside input never reaches it.
#pragma once

#include <fmt/core.h>

#include <exception>
#include <string>
#include <string_view>
#include <utility>

namespace pagoda {

class Error : public std::exception {
 public:
  Error(std::string kind, std::string message)
      : kind_(std::move(kind)), message_(std::move(message)) {}
  template <typename... Args>
  Error(std::string kind,
        fmt::format_string<Args...> format,
        Args&&... args) requires(sizeof...(Args) > 0)
      : Error(std::move(kind), fmt::format(format, std::forward<Args>(args)...)) {}

  const std::string& kind() const { return kind_; }
  const std::string& message() const { return message_; }
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  std::string kind_;
  std::string message_;
};

// Prints the failed check and ends the process: status 70, or abort() in fuzzing builds so that the
// fuzzer sees it.
[[noreturn]] void report_bug(const char* file,
                             int line,
                             const char* condition,
                             const std::string& values);

}  // namespace pagoda

// PG_CHECK(rows == out.rows(), "rows {} out {}", rows, out.rows());
#define PG_CHECK(condition, ...)                                                        \
  do {                                                                                  \
    if (!(condition)) [[unlikely]]                                                      \
      ::pagoda::report_bug(__FILE__, __LINE__, #condition, ::fmt::format(__VA_ARGS__)); \
  } while (false)
