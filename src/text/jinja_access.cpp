// Taking values apart: items, attributes, slices and iteration (declared in jinja_operators.h).
#include <algorithm>
#include <charconv>

#include "text/jinja_functions.h"
#include "text/jinja_operators.h"
#include "text/jinja_print.h"
#include "text/jinja_unicode.h"

namespace pagoda::jinja {
namespace {

Value loop_attribute(Runtime& rt, const Value& value, std::string_view name) {
  const Loop& loop = value.as_loop();
  const auto n = static_cast<int64_t>(loop.items->items.size());
  const int64_t i = loop.index0;
  if (name == "index") return Value::integer(i + 1);
  if (name == "index0") return Value::integer(i);
  if (name == "revindex") return Value::integer(n - i);
  if (name == "revindex0") return Value::integer(n - i - 1);
  if (name == "first") return Value::boolean(i == 0);
  if (name == "last") return Value::boolean(i == n - 1);
  if (name == "length") return Value::integer(n);
  if (name == "depth") return Value::integer(1);  // only recursive loops go deeper
  if (name == "depth0") return Value::integer(0);
  const auto neighbour = [&](int64_t at, std::string_view missing) {
    return at >= 0 && at < n ? loop.items->items[static_cast<size_t>(at)]
                             : rt.undefined(std::string(missing));
  };
  if (name == "previtem") return neighbour(i - 1, "there is no previous item");
  if (name == "nextitem") return neighbour(i + 1, "there is no next item");
  const Function function = find_method(value, name);
  return function == nullptr ? Value() : Value(rt.callable(name, function, value));
}

Value missing(Runtime& rt, const Value& value, std::string_view name) {
  return rt.undefined(fmt::format("'{}' has no attribute '{}'", type_name(value), name));
}

Value method(Runtime& rt, const Value& value, std::string_view name) {
  const Function function = find_method(value, name);
  return function == nullptr ? missing(rt, value, name) : Value(rt.callable(name, function, value));
}

// The index that Python's slice means, for a sequence of n.
int64_t clamp_index(Runtime& rt, const Value& bound, int64_t n, int64_t step, bool is_start) {
  const int64_t lowest = step > 0 ? 0 : -1;
  const int64_t highest = step > 0 ? n : n - 1;
  if (bound.is_undefined() || bound.is(Type::none)) {
    return is_start == (step > 0) ? lowest : highest;
  }
  if (!bound.is_integral()) rt.fail("a slice wants integers, got {}", type_name(bound));
  int64_t i = bound.as_integer();
  if (i < 0) i = std::max(i, -n - 1) + n;
  return std::clamp(i, lowest, highest);
}

}  // namespace

Value get_item(Runtime& rt, const Value& value, const Value& key) {
  switch (value.type()) {
    case Type::undefined:
      fail_undefined(rt, value);
    case Type::string:
      if (key.is_integral()) {
        const SliceBounds at = {key, Value(), Value()};
        const int64_t n = num_chars(value.bytes());
        rt.step(n / 64);
        int64_t i = key.as_integer();
        if (i < 0) i += n;
        if (i < 0 || i >= n) return rt.undefined("a string has no such character");
        const SliceBounds one = {Value::integer(i), Value::integer(i + 1), at.step};
        return get_slice(rt, value, one);
      }
      break;
    case Type::list:
    case Type::tuple:
      if (key.is_integral()) {
        const auto n = static_cast<int64_t>(value.as_list().items.size());
        int64_t i = key.as_integer();
        if (i < 0) i += n;
        if (i >= 0 && i < n) return value.as_list().items[static_cast<size_t>(i)];
        return rt.undefined(
            fmt::format("the {} has no item {}", type_name(value), key.as_integer()));
      }
      break;
    case Type::dict:
      if (key.is_sequence() || key.is(Type::dict)) return rt.undefined("a dict has no such key");
      if (const Value* found = key.is_undefined() ? nullptr : rt.find(value.as_dict(), key)) {
        return *found;
      }
      break;
    default:
      break;
  }
  if (!key.is_string()) return rt.undefined(fmt::format("{} has no such item", type_name(value)));
  if (value.is(Type::dict)) return method(rt, value, key.bytes());
  return get_attribute(rt, value, key.bytes());
}

Value get_attribute(Runtime& rt, const Value& value, std::string_view name) {
  switch (value.type()) {
    case Type::undefined:
      fail_undefined(rt, value);
    case Type::dict: {
      if (const Function function = find_method(value, name)) {
        return Value(rt.callable(name, function, value));
      }
      const Value* found = rt.find(value.as_dict(), name);
      return found == nullptr ? missing(rt, value, name) : *found;
    }
    case Type::name_space: {
      const Value* found = rt.find(value.as_dict(), name);
      return found == nullptr ? missing(rt, value, name) : *found;
    }
    case Type::loop:
      return loop_attribute(rt, value, name);
    case Type::callable:
      return name == "name" ? rt.str(value.as_callable().name) : missing(rt, value, name);
    default:
      return method(rt, value, name);
  }
}

Value get_path(Runtime& rt, const Value& value, const Value& path, const Value& otherwise) {
  if (path.is_integral()) {
    const Value found = get_item(rt, value, path);
    return found.is_undefined() && !otherwise.is_undefined() ? otherwise : found;
  }
  if (!path.is_string()) rt.fail("an attribute is named by a string, got {}", type_name(path));
  Value result = value;
  std::string_view rest = path.bytes();
  while (true) {
    const size_t dot = rest.find('.');
    const std::string_view part = rest.substr(0, dot);
    int64_t index = 0;
    const char* end = part.data() + part.size();
    const auto parsed = std::from_chars(part.data(), end, index);
    const bool is_index = !part.empty() && parsed.ec == std::errc() && parsed.ptr == end;
    result = get_item(rt, result, is_index ? Value::integer(index) : rt.str(part));
    if (result.is_undefined() && !otherwise.is_undefined()) result = otherwise;
    if (dot == std::string_view::npos) return result;
    rest.remove_prefix(dot + 1);
  }
}

Value get_slice(Runtime& rt, const Value& value, const SliceBounds& bounds) {
  if (value.is_undefined()) fail_undefined(rt, value);
  if (!value.is_string() && !value.is_sequence()) rt.fail("{} has no slices", type_name(value));
  int64_t step = 1;
  if (!bounds.step.is_undefined() && !bounds.step.is(Type::none)) {
    if (!bounds.step.is_integral() || bounds.step.as_integer() == 0) {
      rt.fail("the step of a slice is an integer but 0");
    }
    step = bounds.step.as_integer();
  }
  const int64_t n = length_of(rt, value);
  const int64_t start = clamp_index(rt, bounds.start, n, step, true);
  const int64_t stop = clamp_index(rt, bounds.stop, n, step, false);
  if (value.is_string() && step == 1) {
    const Str& text = value.as_str();
    const size_t begin = byte_offset(text.bytes(), start);
    const size_t length = stop > start ? byte_offset(text.bytes().substr(begin), stop - start) : 0;
    return rt.str(text.slice(begin, begin + length));
  }
  const List& items = items_of(rt, value);
  // The step is brought into the range where i + step cannot overflow.
  step = std::clamp<int64_t>(step, -n - 1, n + 1);
  List* result = rt.list();
  Builder text(rt);
  for (int64_t i = start; step > 0 ? i < stop : i > stop; i += step) {
    const Value& item = items.items[static_cast<size_t>(i)];
    if (value.is_string()) {
      text.append(item.as_str());
    } else {
      rt.push(result, item);
    }
  }
  return value.is_string() ? text.finish() : Value(result, value.type());
}

const List& items_of(Runtime& rt, const Value& value) {
  switch (value.type()) {
    case Type::list:
    case Type::tuple:
      return value.as_list();
    case Type::undefined:
      return *rt.list();
    case Type::dict: {
      List* keys = rt.list();
      for (const auto& entry : value.as_dict().entries) rt.push(keys, entry.first);
      return *keys;
    }
    case Type::string: {
      List* chars = rt.list();
      const Str& text = value.as_str();
      for (size_t pos = 0; pos < text.size();) {
        const size_t begin = pos;
        next_char(text.bytes(), &pos);
        rt.push(chars, rt.str(text.slice(begin, pos)));
      }
      return *chars;
    }
    default:
      rt.fail("{} cannot be gone through item by item", type_name(value));
  }
}

int64_t length_of(Runtime& rt, const Value& value) {
  switch (value.type()) {
    case Type::undefined:
      return 0;
    case Type::string:
      rt.step(static_cast<int64_t>(value.as_str().size() / 64));
      return num_chars(value.bytes());
    case Type::list:
    case Type::tuple:
      return static_cast<int64_t>(value.as_list().items.size());
    case Type::dict:
      return static_cast<int64_t>(value.as_dict().entries.size());
    default:
      rt.fail("{} has no length", type_name(value));
  }
}

}  // namespace pagoda::jinja
