#include "text/jinja_runtime.h"

#include <cmath>

namespace pagoda::jinja {

std::vector<Value> Args::bind(Runtime& rt,
                              std::string_view callee,
                              std::initializer_list<std::string_view> names) const {
  std::vector<Value> bound(names.size());
  if (positional.size() > names.size()) {
    rt.fail(
        "{} takes at most {} arguments, {} were given", callee, names.size(), positional.size());
  }
  for (size_t i = 0; i < positional.size(); ++i) bound[i] = positional[i];
  for (const auto& [name, value] : named) {
    size_t i = 0;
    while (i < names.size() && names.begin()[i] != name) ++i;
    if (i == names.size()) rt.fail("{} has no argument named '{}'", callee, name);
    if (i < positional.size()) rt.fail("{} got its argument '{}' twice", callee, name);
    bound[i] = value;
  }
  return bound;
}

Runtime::Runtime(const Limits& limits, const std::tm& now)
    : limits_(limits),
      now_(now),
      deadline_(std::chrono::steady_clock::now() +
                std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                    std::chrono::duration<double>(limits.max_seconds))) {}

void Runtime::exceed(std::string_view what) const {
  throw Error("template.limit",
              "line {}: rendering stopped, too much {} (limits: {} steps, {} bytes of output, {} "
              "bytes of memory, {} levels, {} s)",
              line_,
              what,
              limits_.max_steps,
              limits_.max_output_bytes,
              limits_.max_memory_bytes,
              limits_.eval_depth,
              limits_.max_seconds);
}

void Runtime::check_time() {
  if (steps_ > limits_.max_steps) exceed("work");
  if (std::chrono::steady_clock::now() > deadline_) exceed("time");
  next_check_ = std::min(steps_ + 4096, limits_.max_steps + 1);
}

void Runtime::charge(int64_t bytes) {
  memory_bytes_ += bytes;
  if (memory_bytes_ > limits_.max_memory_bytes) exceed("memory");
}

Value Runtime::str(Str text) {
  const size_t bytes = text.size() + text.runs().size() * sizeof(Str::Run) + sizeof(Str);
  charge(static_cast<int64_t>(bytes));
  strings_.push_back(std::move(text));
  return Value(&strings_.back());
}

Value Runtime::str(std::string_view text, TextOrigin origin) {
  return str(Str(std::string(text), origin));
}

Value Runtime::undefined(std::string message) {
  return Value::undefined(&str(message).as_str());
}

List* Runtime::list() {
  charge(sizeof(List));
  return &lists_.emplace_back();
}

void Runtime::push(List* list, const Value& value) {
  step();
  charge(2 * sizeof(Value));
  list->items.push_back(value);
}

Dict* Runtime::dict() {
  charge(sizeof(Dict));
  return &dicts_.emplace_back();
}

void Runtime::put(Dict* dict, const Value& key, const Value& value) {
  step();
  std::string id = identity(key);
  charge(static_cast<int64_t>(id.size() + 6 * sizeof(Value) + 64));
  const auto [entry, added] = dict->index.emplace(std::move(id), dict->entries.size());
  if (added) {
    dict->entries.emplace_back(key, value);
  } else {
    dict->entries[entry->second].second = value;
  }
}

const Value* Runtime::find(const Dict& dict, const Value& key) {
  const auto entry = dict.index.find(identity(key));
  return entry == dict.index.end() ? nullptr : &dict.entries[entry->second].second;
}

const Value* Runtime::find(const Dict& dict, std::string_view key) const {
  const auto entry = dict.index.find(fmt::format("s{}", key));
  return entry == dict.index.end() ? nullptr : &dict.entries[entry->second].second;
}

Loop* Runtime::loop() {
  charge(sizeof(Loop));
  return &loops_.emplace_back();
}

Callable* Runtime::callable(std::string_view name, Function function, const Value& self) {
  charge(sizeof(Callable));
  Callable& c = callables_.emplace_back();
  c.name = name;
  c.function = function;
  c.self = self;
  return &c;
}

// Keys are the same when Python's == says so: 1, 1.0 and True are one key.
std::string Runtime::identity(const Value& key) {
  const Depth depth(*this);
  switch (key.type()) {
    case Type::string:
      step(static_cast<int64_t>(key.as_str().size() / 64));
      return fmt::format("s{}", key.bytes());
    case Type::boolean:
    case Type::integer:
      return fmt::format("n{}", key.as_integer());
    case Type::real: {
      const double x = key.as_real();
      if (x == std::floor(x) && std::abs(x) < 9e18)
        return fmt::format("n{}", static_cast<int64_t>(x));
      return fmt::format("d{}", x);
    }
    case Type::none:
      return "N";
    case Type::tuple: {
      std::string id = "t";
      for (const Value& item : key.as_list().items) {
        const std::string part = identity(item);
        id += fmt::format("{}:{}", part.size(), part);
        if (static_cast<int64_t>(id.size()) > limits_.max_output_bytes) exceed("memory");
      }
      return id;
    }
    default:
      fail("this value cannot be the key of a dict");
  }
}

void Builder::grow(size_t bytes) {
  rt_.step(static_cast<int64_t>(bytes / 64));
  if (static_cast<int64_t>(text_.size() + bytes) > rt_.limits().max_output_bytes) {
    rt_.exceed("output");
  }
}

void Builder::append(std::string_view text, TextOrigin origin) {
  grow(text.size());
  text_.append(text, origin);
}

void Builder::append(const Str& text, size_t begin, size_t end) {
  if (begin >= end) return;
  grow(end - begin);
  text_.append(text, begin, end);
}

}  // namespace pagoda::jinja
