// Runtime: one rendering's memory and its limits (rule R12). It owns every value that the template
// makes, counts steps, bytes and depth, and throws "template.limit" when one runs out, or
// "template.runtime" with the line for a fault of the template.
//
// Memory counts all that was ever allocated, not what is alive: nothing is freed before the end.
// No string grows above max_output_bytes. The clock is looked at every 4096 steps.
#pragma once

#include <chrono>
#include <cstdint>
#include <ctime>
#include <deque>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "text/jinja_value.h"

namespace pagoda::jinja {

struct Limits {
  int parse_depth = 100;
  int eval_depth = 600;
  int64_t max_steps = 10'000'000;
  int64_t max_output_bytes = int64_t{16} << 20;
  int64_t max_memory_bytes = int64_t{256} << 20;
  double max_seconds = 2.0;
};

struct Stmt;
struct Scope;
struct Args;
class Runtime;

using Function = Value (*)(Runtime&, const Value& self, const Args&);

// A macro with the scope that it saw, or a function of ours with the value it is bound to.
struct Callable {
  std::string_view name;
  Function function = nullptr;
  Value self;
  const Stmt* macro = nullptr;
  Scope* scope = nullptr;
};

struct Args {
  std::vector<Value> positional;
  std::vector<std::pair<std::string_view, Value>> named;

  // The arguments in the order of `names`, undefined where not given; others are a fault.
  std::vector<Value> bind(Runtime& rt,
                          std::string_view callee,
                          std::initializer_list<std::string_view> names) const;
};

class Runtime {
 public:
  Runtime(const Limits& limits, const std::tm& now);

  void step(int64_t n = 1) {
    steps_ += n;
    if (steps_ >= next_check_) check_time();
  }
  void charge(int64_t bytes);
  const Limits& limits() const { return limits_; }
  const std::tm& now() const { return now_; }
  void set_line(int line) { line_ = line; }
  int line() const { return line_; }

  template <typename... T>
  [[noreturn]] void fail(fmt::format_string<T...> format, T&&... args) const {
    throw Error(
        "template.runtime", "line {}: {}", line_, fmt::format(format, std::forward<T>(args)...));
  }
  [[noreturn]] void exceed(std::string_view what) const;

  // Makers; each charges what it allocates.
  Value str(Str text);
  Value str(std::string_view text, TextOrigin origin = TextOrigin::markup);
  Value undefined(std::string message);
  List* list();
  void push(List* list, const Value& value);
  Dict* dict();
  void put(Dict* dict, const Value& key, const Value& value);
  const Value* find(const Dict& dict, const Value& key);
  const Value* find(const Dict& dict, std::string_view key) const;
  Loop* loop();
  Callable* callable(std::string_view name, Function function, const Value& self = Value());

 private:
  friend class Depth;
  void check_time();
  std::string identity(const Value& key);

  const Limits limits_;
  const std::tm now_;
  std::chrono::steady_clock::time_point deadline_;
  int64_t steps_ = 0;
  int64_t next_check_ = 4096;
  int64_t memory_bytes_ = 0;
  int depth_ = 0;
  int line_ = 1;
  std::deque<Str> strings_;
  std::deque<List> lists_;
  std::deque<Dict> dicts_;
  std::deque<Loop> loops_;
  std::deque<Callable> callables_;
};

// One level of recursion, for as long as it lives.
class Depth {
 public:
  explicit Depth(Runtime& rt) : rt_(rt) {
    if (++rt_.depth_ > rt_.limits_.eval_depth) {
      --rt_.depth_;
      rt_.exceed("nesting");
    }
  }
  ~Depth() { --rt_.depth_; }
  Depth(const Depth&) = delete;
  Depth& operator=(const Depth&) = delete;

 private:
  Runtime& rt_;
};

// A string under construction, within the limits.
class Builder {
 public:
  explicit Builder(Runtime& rt) : rt_(rt) {}
  void append(std::string_view text, TextOrigin origin);
  void append(const Str& text) { append(text, 0, text.size()); }
  void append(const Str& text, size_t begin, size_t end);
  const Str& text() const { return text_; }
  Value finish() { return rt_.str(std::move(text_)); }

 private:
  void grow(size_t bytes);
  Runtime& rt_;
  Str text_;
};

}  // namespace pagoda::jinja
