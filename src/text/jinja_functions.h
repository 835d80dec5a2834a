// The functions that templates can call: methods of values, filters, tests and globals. There are
// no others: no attribute of any other kind, nothing that reaches the process or its files.
//
// Each table lies in the .cpp of its name. A finder returns null for a name that does not exist.
#pragma once

#include <string_view>

#include "text/jinja_runtime.h"

namespace pagoda::jinja {

using Test = bool (*)(Runtime&, const Value& subject, const Args&);

Function find_method(const Value& value, std::string_view name);
Function find_string_method(std::string_view name);
Function find_filter(std::string_view name);
Function find_text_filter(std::string_view name);
Function find_sequence_filter(std::string_view name);
Function find_selection_filter(std::string_view name);
Test find_test(std::string_view name);
Function find_global(std::string_view name);

struct NamedFunction {
  std::string_view name;
  Function function;
};

// Text helpers that methods and filters share; `rt` pays for the work.
size_t find_text(Runtime& rt, std::string_view text, std::string_view what, size_t from = 0);
size_t find_text_backwards(Runtime& rt,
                           std::string_view text,
                           std::string_view what,
                           size_t end = std::string_view::npos);
enum class StripSide { left, right, both };
// Without `chars` (undefined or None) white space goes.
Value strip(Runtime& rt, const Value& text, const Value& chars, StripSide side);
Value replace(Runtime& rt, const Value& text, const Value& from, const Value& to, int64_t count);
Value upper(Runtime& rt, const Value& text);
Value lower(Runtime& rt, const Value& text);
Value capitalize(Runtime& rt, const Value& text);
Value join(Runtime& rt, const Value& separator, const List& items);
// [begin, end) of each line without its end, as str.splitlines.
std::vector<std::pair<size_t, size_t>> split_lines(std::string_view text);

// Arguments with a type; undefined gives `otherwise`.
int64_t integer_or(Runtime& rt, const Value& value, int64_t otherwise);
bool truth_or(const Value& value, bool otherwise);
const Value& want_string(Runtime& rt, const Value& value, std::string_view callee);

}  // namespace pagoda::jinja
