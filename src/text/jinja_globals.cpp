// The functions that a template finds as plain names.
#include <array>
#include <ctime>

#include "text/jinja_functions.h"
#include "text/jinja_operators.h"
#include "text/jinja_print.h"

namespace pagoda::jinja {
namespace {

constexpr int64_t kMaxRange = 100'000;  // jinja2's sandbox has the same

Value range(Runtime& rt, const Value&, const Args& args) {
  const auto& given = args.positional;
  if (given.empty() || given.size() > 3 || !args.named.empty()) {
    rt.fail("range takes one to three integers");
  }
  for (const Value& value : given) {
    if (!value.is_integral()) rt.fail("range wants integers, got {}", type_name(value));
  }
  const int64_t start = given.size() > 1 ? given[0].as_integer() : 0;
  const int64_t stop = given[given.size() > 1 ? 1 : 0].as_integer();
  const int64_t step = given.size() > 2 ? given[2].as_integer() : 1;
  if (step == 0) rt.fail("the step of range is not 0");
  const bool some = step > 0 ? start < stop : start > stop;
  const uint64_t distance = !some      ? 0
                            : step > 0 ? static_cast<uint64_t>(stop) - static_cast<uint64_t>(start)
                                       : static_cast<uint64_t>(start) - static_cast<uint64_t>(stop);
  const uint64_t stride =
      step > 0 ? static_cast<uint64_t>(step) : uint64_t{0} - static_cast<uint64_t>(step);
  const uint64_t count = distance / stride + (distance % stride != 0 ? 1 : 0);
  if (count > static_cast<uint64_t>(kMaxRange)) {
    throw Error("template.limit",
                "line {}: range of {} items, {} are allowed",
                rt.line(),
                count,
                kMaxRange);
  }
  List* result = rt.list();
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t value = static_cast<uint64_t>(start) + i * static_cast<uint64_t>(step);
    rt.push(result, Value::integer(static_cast<int64_t>(value)));
  }
  return Value(result);
}

Value raise_exception(Runtime& rt, const Value&, const Args& args) {
  const Value message = to_str(rt, args.bind(rt, "raise_exception", {"message"})[0]);
  throw Error("template.raised", std::string(message.bytes()));
}

Value strftime_now(Runtime& rt, const Value&, const Args& args) {
  const Value format = args.bind(rt, "strftime_now", {"format"})[0];
  const std::string pattern(want_string(rt, format, "strftime_now").bytes());
  if (pattern.empty()) return rt.str("");
  std::array<char, 1024> text;
  const std::tm now = rt.now();
  const size_t n = std::strftime(text.data(), text.size(), pattern.c_str(), &now);
  return rt.str(std::string_view(text.data(), n));
}

// The dict (or namespace) of keyword arguments, behind those of a dict or of pairs.
Dict* dict_of(Runtime& rt, std::string_view callee, const Args& args) {
  Dict* dict = rt.dict();
  if (args.positional.size() > 1) rt.fail("{} takes one value and named ones", callee);
  for (const Value& base : args.positional) {
    if (base.is_mapping()) {
      for (const auto& [key, value] : base.as_dict().entries) rt.put(dict, key, value);
      continue;
    }
    for (const Value& item : items_of(rt, base).items) {
      const List& pair = items_of(rt, item);
      if (pair.items.size() != 2) rt.fail("{} wants pairs", callee);
      rt.put(dict, pair.items[0], pair.items[1]);
    }
  }
  for (const auto& [name, value] : args.named) rt.put(dict, rt.str(name), value);
  return dict;
}

Value make_dict(Runtime& rt, const Value&, const Args& args) {
  return Value(dict_of(rt, "dict", args));
}

Value make_namespace(Runtime& rt, const Value&, const Args& args) {
  return Value(dict_of(rt, "namespace", args), Type::name_space);
}

// joiner(sep) gives nothing on its first call and sep on the later ones: a namespace is its memory.
Value joiner_call(Runtime& rt, const Value& self, const Args& args) {
  args.bind(rt, "joiner", {});
  const Value used = rt.str("used");
  const bool first = rt.find(self.as_dict(), used) == nullptr;
  rt.put(&self.as_dict(), used, Value::boolean(true));
  return first ? rt.str("") : *rt.find(self.as_dict(), "sep");
}

Value joiner(Runtime& rt, const Value&, const Args& args) {
  const Value sep = args.bind(rt, "joiner", {"sep"})[0];
  Dict* memory = rt.dict();
  rt.put(memory, rt.str("sep"), sep.is_undefined() ? rt.str(", ") : sep);
  return Value(rt.callable("joiner", joiner_call, Value(memory, Type::name_space)));
}

constexpr NamedFunction kGlobals[] = {
    {"range", range},
    {"raise_exception", raise_exception},
    {"strftime_now", strftime_now},
    {"dict", make_dict},
    {"namespace", make_namespace},
    {"joiner", joiner},
};

}  // namespace

Function find_global(std::string_view name) {
  for (const NamedFunction& entry : kGlobals) {
    if (entry.name == name) return entry.function;
  }
  return nullptr;
}

}  // namespace pagoda::jinja
