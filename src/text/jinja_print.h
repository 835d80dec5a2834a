// How values become text: Python's str() and repr(), and json.dumps for the tojson filter.
//
// A string printed by itself keeps its origins. Text computed from a container is one piece: plain
// when any string in it came from the request, markup otherwise.
#pragma once

#include <string>

#include "text/jinja_runtime.h"
#include "text/jinja_value.h"

namespace pagoda::jinja {

// Python's repr of a float: the shortest digits that read back, "1.0", "1e+16", "inf", "nan".
std::string float_repr(double value);
// str(value), as {{ value }} prints it; undefined prints nothing.
void print(Builder* out, Runtime& rt, const Value& value);
Value to_str(Runtime& rt, const Value& value);
std::string_view type_name(const Value& value);

struct JsonStyle {
  std::string indent;  // of one level
  bool multi_line = false;
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool ensure_ascii = false;
  bool sort_keys = false;
};
// json.dumps(value, ...), byte for byte.
Value to_json(Runtime& rt, const Value& value, const JsonStyle& style);

}  // namespace pagoda::jinja
