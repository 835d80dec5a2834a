// Python's operators on values: truth, comparison, arithmetic, membership, items, slices,
// iteration.
//
// A fault (an operator that the types don't have, division by zero) is "template.runtime"; integers
// that leave 64 bits and results above the limits are "template.limit".
#pragma once

#include <string_view>

#include "text/jinja_ast.h"
#include "text/jinja_runtime.h"

namespace pagoda::jinja {

bool truth(const Value& value);
bool equal(Runtime& rt, const Value& a, const Value& b);
// Negative, zero or positive; a fault for values without an order.
int order(Runtime& rt, const Value& a, const Value& b);
bool contains(Runtime& rt, const Value& container, const Value& item);
bool compare(Runtime& rt, Op op, const Value& a, const Value& b);
Value arithmetic(Runtime& rt, Op op, const Value& a, const Value& b);
Value negate(Runtime& rt, const Value& value);

// value[key] and value.name, as jinja2 does them: what is missing is undefined; taking anything
// from an undefined value is a fault.
Value get_item(Runtime& rt, const Value& value, const Value& key);
Value get_attribute(Runtime& rt, const Value& value, std::string_view name);
// "a.b.0", as the attribute arguments of filters have it; `otherwise` stands in for each part that
// is missing, unless it is undefined itself.
Value get_path(Runtime& rt,
               const Value& value,
               const Value& path,
               const Value& otherwise = Value());
struct SliceBounds {
  Value start, stop, step;  // undefined or None where left out
};
Value get_slice(Runtime& rt, const Value& value, const SliceBounds& bounds);

// What a for loop over the value sees: items, keys or characters. Not to be changed by the caller.
const List& items_of(Runtime& rt, const Value& value);
int64_t length_of(Runtime& rt, const Value& value);
// Stops with the reason why the value is undefined.
[[noreturn]] void fail_undefined(Runtime& rt, const Value& value);

}  // namespace pagoda::jinja
