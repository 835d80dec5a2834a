// Filters over sequences as a whole: order, ends, sums, joins.
#include <algorithm>

#include "text/jinja_functions.h"
#include "text/jinja_operators.h"
#include "text/jinja_print.h"

namespace pagoda::jinja {
namespace {

Value attribute_of(Runtime& rt, const Value& item, const Value& attribute) {
  return attribute.is_undefined() || attribute.is(Type::none) ? item
                                                              : get_path(rt, item, attribute);
}

// What an item is sorted or compared by: strings without case unless asked.
Value key_of(Runtime& rt, const Value& item, const Value& attribute, bool case_sensitive) {
  const Value key = attribute_of(rt, item, attribute);
  return key.is_string() && !case_sensitive ? lower(rt, key) : key;
}

Value length(Runtime& rt, const Value& v, const Args& args) {
  args.bind(rt, "length", {});
  return Value::integer(length_of(rt, v));
}

Value first(Runtime& rt, const Value& v, const Args& args) {
  args.bind(rt, "first", {});
  const List& list = items_of(rt, v);
  return list.items.empty() ? rt.undefined("the sequence has no first item") : list.items.front();
}

Value last(Runtime& rt, const Value& v, const Args& args) {
  args.bind(rt, "last", {});
  const List& list = items_of(rt, v);
  return list.items.empty() ? rt.undefined("the sequence has no last item") : list.items.back();
}

Value join_filter(Runtime& rt, const Value& v, const Args& args) {
  const auto bound = args.bind(rt, "join", {"d", "attribute"});
  const List* list = &items_of(rt, v);
  if (!bound[1].is_undefined()) {
    List* picked = rt.list();
    for (const Value& item : list->items) rt.push(picked, attribute_of(rt, item, bound[1]));
    list = picked;
  }
  return join(rt, bound[0].is_undefined() ? rt.str("") : bound[0], *list);
}

Value to_list(Runtime& rt, const Value& v, const Args& args) {
  args.bind(rt, "list", {});
  List* result = rt.list();
  for (const Value& item : items_of(rt, v).items) rt.push(result, item);
  return Value(result);
}

Value pair(Runtime& rt, const Value& a, const Value& b) {
  List* tuple = rt.list();
  rt.push(tuple, a);
  rt.push(tuple, b);
  return Value(tuple, Type::tuple);
}

Value items(Runtime& rt, const Value& v, const Args& args) {
  args.bind(rt, "items", {});
  List* result = rt.list();
  if (v.is_undefined()) return Value(result);
  if (!v.is_mapping()) rt.fail("items wants a mapping, got {}", type_name(v));
  for (const auto& [key, value] : v.as_dict().entries) rt.push(result, pair(rt, key, value));
  return Value(result);
}

// Sorts by keys worked out once each, stable in both directions.
Value sort_by(Runtime& rt,
              const std::vector<Value>& values,
              const std::vector<Value>& keys,
              bool reverse) {
  std::vector<size_t> at(values.size());
  for (size_t i = 0; i < at.size(); ++i) at[i] = i;
  std::stable_sort(at.begin(), at.end(), [&](size_t a, size_t b) {
    return reverse ? order(rt, keys[b], keys[a]) < 0 : order(rt, keys[a], keys[b]) < 0;
  });
  List* result = rt.list();
  for (const size_t i : at) rt.push(result, values[i]);
  return Value(result);
}

Value sort(Runtime& rt, const Value& v, const Args& args) {
  const auto bound = args.bind(rt, "sort", {"reverse", "case_sensitive", "attribute"});
  const List& list = items_of(rt, v);
  std::vector<Value> keys;
  for (const Value& item : list.items) {
    keys.push_back(key_of(rt, item, bound[2], truth_or(bound[1], false)));
  }
  return sort_by(rt, list.items, keys, truth_or(bound[0], false));
}

Value dictsort(Runtime& rt, const Value& v, const Args& args) {
  const auto bound = args.bind(rt, "dictsort", {"case_sensitive", "by", "reverse"});
  if (!v.is_mapping()) rt.fail("dictsort wants a mapping, got {}", type_name(v));
  const std::string_view by =
      bound[1].is_undefined() ? "key" : want_string(rt, bound[1], "dictsort").bytes();
  if (by != "key" && by != "value") rt.fail("dictsort sorts by 'key' or 'value'");
  std::vector<Value> pairs;
  std::vector<Value> keys;
  for (const auto& [key, value] : v.as_dict().entries) {
    pairs.push_back(pair(rt, key, value));
    keys.push_back(key_of(rt, by == "key" ? key : value, Value(), truth_or(bound[0], false)));
  }
  return sort_by(rt, pairs, keys, truth_or(bound[2], false));
}

Value unique(Runtime& rt, const Value& v, const Args& args) {
  const auto bound = args.bind(rt, "unique", {"case_sensitive", "attribute"});
  Dict* seen = rt.dict();
  List* result = rt.list();
  for (const Value& item : items_of(rt, v).items) {
    const Value key = key_of(rt, item, bound[1], truth_or(bound[0], false));
    if (rt.find(*seen, key) != nullptr) continue;
    rt.put(seen, key, Value::none());
    rt.push(result, item);
  }
  return Value(result);
}

Value reverse(Runtime& rt, const Value& v, const Args& args) {
  args.bind(rt, "reverse", {});
  const List& list = items_of(rt, v);
  List* result = rt.list();
  for (auto item = list.items.rbegin(); item != list.items.rend(); ++item) rt.push(result, *item);
  return v.is_string() ? join(rt, rt.str(""), *result) : Value(result);
}

Value sum(Runtime& rt, const Value& v, const Args& args) {
  const auto bound = args.bind(rt, "sum", {"attribute", "start"});
  Value total = bound[1].is_undefined() ? Value::integer(0) : bound[1];
  for (const Value& item : items_of(rt, v).items) {
    total = arithmetic(rt, Op::add, total, attribute_of(rt, item, bound[0]));
  }
  return total;
}

template <int kSign>
Value extreme(Runtime& rt, const Value& v, const Args& args) {
  const auto bound = args.bind(rt, kSign < 0 ? "min" : "max", {"case_sensitive", "attribute"});
  const List& list = items_of(rt, v);
  if (list.items.empty()) return rt.undefined("an empty sequence has no smallest or largest item");
  const bool case_sensitive = truth_or(bound[0], false);
  Value best = list.items[0];
  Value best_key = key_of(rt, best, bound[1], case_sensitive);
  for (size_t i = 1; i < list.items.size(); ++i) {
    const Value key = key_of(rt, list.items[i], bound[1], case_sensitive);
    if (order(rt, key, best_key) * kSign <= 0) continue;
    best = list.items[i];
    best_key = key;
  }
  return best;
}

Value batch(Runtime& rt, const Value& v, const Args& args) {
  const auto bound = args.bind(rt, "batch", {"linecount", "fill_with"});
  const int64_t size = integer_or(rt, bound[0], 0);
  if (size < 1) rt.fail("batch wants a size of at least 1");
  List* result = rt.list();
  List* row = nullptr;
  for (const Value& item : items_of(rt, v).items) {
    if (row == nullptr || static_cast<int64_t>(row->items.size()) == size) {
      row = rt.list();
      rt.push(result, Value(row));
    }
    rt.push(row, item);
  }
  const bool fill = !bound[1].is_undefined() && !bound[1].is(Type::none);
  while (fill && row != nullptr && static_cast<int64_t>(row->items.size()) < size) {
    rt.push(row, bound[1]);
  }
  return Value(result);
}

constexpr NamedFunction kFilters[] = {
    {"length", length},
    {"count", length},
    {"first", first},
    {"last", last},
    {"join", join_filter},
    {"list", to_list},
    {"items", items},
    {"sort", sort},
    {"dictsort", dictsort},
    {"unique", unique},
    {"reverse", reverse},
    {"sum", sum},
    {"min", extreme<-1>},
    {"max", extreme<1>},
    {"batch", batch},
};

}  // namespace

Function find_sequence_filter(std::string_view name) {
  for (const NamedFunction& entry : kFilters) {
    if (entry.name == name) return entry.function;
  }
  return nullptr;
}

}  // namespace pagoda::jinja
