// Filters that apply a filter, a test or an attribute to each item: map, select, reject, groupby.
#include "text/jinja_functions.h"
#include "text/jinja_operators.h"
#include "text/jinja_print.h"

namespace pagoda::jinja {
namespace {

// As in jinja2, a value that is not true (None, 0) has no items here.
const List& items_or_none(Runtime& rt, const Value& v) {
  return truth(v) ? items_of(rt, v) : *rt.list();
}

// The arguments from the one with index `from` on.
Args tail(const Args& args, size_t from) {
  Args rest;
  for (size_t i = from; i < args.positional.size(); ++i) {
    rest.positional.push_back(args.positional[i]);
  }
  rest.named = args.named;
  return rest;
}

Value map(Runtime& rt, const Value& v, const Args& args) {
  List* result = rt.list();
  if (args.positional.empty()) {
    const auto bound = args.bind(rt, "map", {"attribute", "default"});
    if (bound[0].is_undefined()) rt.fail("map wants a filter or attribute=");
    for (const Value& item : items_or_none(rt, v).items) {
      rt.push(result, get_path(rt, item, bound[0], bound[1]));
    }
    return Value(result);
  }
  const std::string_view name = want_string(rt, args.positional[0], "map").bytes();
  const Function filter = find_filter(name);
  if (filter == nullptr) rt.fail("there is no filter '{}'", name);
  const Args rest = tail(args, 1);
  for (const Value& item : items_or_none(rt, v).items) {
    const Depth depth(rt);
    rt.push(result, filter(rt, item, rest));
  }
  return Value(result);
}

template <bool kAttribute, bool kKeep>
Value select(Runtime& rt, const Value& v, const Args& args) {
  const size_t test_at = kAttribute ? 1 : 0;
  if (args.positional.size() < test_at) rt.fail("selectattr and rejectattr want an attribute");
  Test test = nullptr;
  if (args.positional.size() > test_at) {
    const std::string_view name = want_string(rt, args.positional[test_at], "select").bytes();
    test = find_test(name);
    if (test == nullptr) rt.fail("there is no test '{}'", name);
  }
  const Args rest = tail(args, test_at + 1);
  List* result = rt.list();
  for (const Value& item : items_or_none(rt, v).items) {
    const Value subject = kAttribute ? get_path(rt, item, args.positional[0]) : item;
    if ((test == nullptr ? truth(subject) : test(rt, subject, rest)) == kKeep) {
      rt.push(result, item);
    }
  }
  return Value(result);
}

// Pairs of a key and the items that have it, ordered by key.
Value groupby(Runtime& rt, const Value& v, const Args& args) {
  const auto bound = args.bind(rt, "groupby", {"attribute", "default", "case_sensitive"});
  if (bound[0].is_undefined()) rt.fail("groupby wants an attribute");
  Args by;
  by.named.emplace_back("attribute", bound[0]);
  by.named.emplace_back("case_sensitive", Value::boolean(truth_or(bound[2], false)));
  const Value sorted = find_filter("sort")(rt, v, by);
  List* result = rt.list();
  List* group = nullptr;
  Value last_key;
  for (const Value& item : sorted.as_list().items) {
    const Value label = get_path(rt, item, bound[0], bound[1]);
    const Value key = label.is_string() && !truth_or(bound[2], false) ? lower(rt, label) : label;
    if (group == nullptr || !equal(rt, key, last_key)) {
      group = rt.list();
      List* entry = rt.list();
      rt.push(entry, label);
      rt.push(entry, Value(group));
      rt.push(result, Value(entry, Type::tuple));
      last_key = key;
    }
    rt.push(group, item);
  }
  return Value(result);
}

constexpr NamedFunction kFilters[] = {
    {"map", map},
    {"select", select<false, true>},
    {"reject", select<false, false>},
    {"selectattr", select<true, true>},
    {"rejectattr", select<true, false>},
    {"groupby", groupby},
};

}  // namespace

Function find_selection_filter(std::string_view name) {
  for (const NamedFunction& entry : kFilters) {
    if (entry.name == name) return entry.function;
  }
  return nullptr;
}

Function find_filter(std::string_view name) {
  if (const Function function = find_text_filter(name)) return function;
  if (const Function function = find_sequence_filter(name)) return function;
  return find_selection_filter(name);
}

}  // namespace pagoda::jinja
