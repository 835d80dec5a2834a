// Methods of dicts, lists and the loop variable.
#include "text/jinja_functions.h"
#include "text/jinja_operators.h"
#include "text/jinja_print.h"

namespace pagoda::jinja {
namespace {

Value pair(Runtime& rt, const Value& first, const Value& second) {
  List* tuple = rt.list();
  rt.push(tuple, first);
  rt.push(tuple, second);
  return Value(tuple, Type::tuple);
}

Value dict_items(Runtime& rt, const Value& self, const Args& args) {
  args.bind(rt, "items", {});
  List* result = rt.list();
  for (const auto& [key, value] : self.as_dict().entries) rt.push(result, pair(rt, key, value));
  return Value(result);
}

Value dict_keys(Runtime& rt, const Value& self, const Args& args) {
  args.bind(rt, "keys", {});
  List* result = rt.list();
  for (const auto& entry : self.as_dict().entries) rt.push(result, entry.first);
  return Value(result);
}

Value dict_values(Runtime& rt, const Value& self, const Args& args) {
  args.bind(rt, "values", {});
  List* result = rt.list();
  for (const auto& entry : self.as_dict().entries) rt.push(result, entry.second);
  return Value(result);
}

Value dict_get(Runtime& rt, const Value& self, const Args& args) {
  if (!args.named.empty()) rt.fail("get takes no named arguments");
  const auto bound = args.bind(rt, "get", {"key", "default"});
  if (args.positional.empty()) rt.fail("get wants a key");
  const Value* found = bound[0].is_undefined() ? nullptr : rt.find(self.as_dict(), bound[0]);
  if (found != nullptr) return *found;
  return args.positional.size() > 1 ? bound[1] : Value::none();
}

Value list_append(Runtime& rt, const Value& self, const Args& args) {
  const auto bound = args.bind(rt, "append", {"item"});
  if (args.positional.empty()) rt.fail("append wants an item");
  rt.push(&self.as_list(), bound[0]);
  return Value::none();
}

Value list_pop(Runtime& rt, const Value& self, const Args& args) {
  auto& items = self.as_list().items;
  const auto n = static_cast<int64_t>(items.size());
  int64_t i = integer_or(rt, args.bind(rt, "pop", {"index"})[0], -1);
  if (i < 0) i += n;
  if (i < 0 || i >= n) rt.fail("pop: the list has no such item");
  rt.step(n / 64);
  const Value item = items[static_cast<size_t>(i)];
  items.erase(items.begin() + i);
  return item;
}

Value list_index(Runtime& rt, const Value& self, const Args& args) {
  const auto bound = args.bind(rt, "index", {"item"});
  const auto& items = self.as_list().items;
  for (size_t i = 0; i < items.size(); ++i) {
    if (equal(rt, items[i], bound[0])) return Value::integer(static_cast<int64_t>(i));
  }
  rt.fail("index: the list does not hold this item");
}

Value list_count(Runtime& rt, const Value& self, const Args& args) {
  const auto bound = args.bind(rt, "count", {"item"});
  int64_t count = 0;
  for (const Value& item : self.as_list().items) count += equal(rt, item, bound[0]) ? 1 : 0;
  return Value::integer(count);
}

Value loop_cycle(Runtime& rt, const Value& self, const Args& args) {
  if (args.positional.empty()) rt.fail("loop.cycle wants at least one value");
  const auto n = static_cast<int64_t>(args.positional.size());
  return args.positional[static_cast<size_t>(self.as_loop().index0 % n)];
}

Value loop_changed(Runtime& rt, const Value& self, const Args& args) {
  Loop& loop = self.as_loop();
  List* now = rt.list();
  for (const Value& value : args.positional) rt.push(now, value);
  const bool changed =
      loop.last_changed == nullptr || !equal(rt, Value(now), Value(loop.last_changed));
  loop.last_changed = now;
  return Value::boolean(changed);
}

constexpr NamedFunction kDictMethods[] = {
    {"items", dict_items}, {"keys", dict_keys}, {"values", dict_values}, {"get", dict_get}};
constexpr NamedFunction kListMethods[] = {
    {"append", list_append}, {"pop", list_pop}, {"index", list_index}, {"count", list_count}};
constexpr NamedFunction kTupleMethods[] = {{"index", list_index}, {"count", list_count}};
constexpr NamedFunction kLoopMethods[] = {{"cycle", loop_cycle}, {"changed", loop_changed}};

template <size_t N>
Function find_in(const NamedFunction (&table)[N], std::string_view name) {
  for (const NamedFunction& entry : table) {
    if (entry.name == name) return entry.function;
  }
  return nullptr;
}

}  // namespace

Function find_method(const Value& value, std::string_view name) {
  switch (value.type()) {
    case Type::string:
      return find_string_method(name);
    case Type::dict:
      return find_in(kDictMethods, name);
    case Type::list:
      return find_in(kListMethods, name);
    case Type::tuple:
      return find_in(kTupleMethods, name);
    case Type::loop:
      return find_in(kLoopMethods, name);
    default:
      return nullptr;
  }
}

}  // namespace pagoda::jinja
