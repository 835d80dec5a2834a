// The text helpers of jinja_functions.h.
#include <cstring>

#include "text/jinja_functions.h"
#include "text/jinja_operators.h"
#include "text/jinja_print.h"
#include "text/jinja_unicode.h"

namespace pagoda::jinja {
namespace {

bool given(const Value& value) {
  return !value.is_undefined() && !value.is(Type::none);
}

bool is_line_end(uint32_t code) {
  return (code >= 10 && code <= 13) || (code >= 0x1c && code <= 0x1e) || code == 0x85 ||
         code == 0x2028 || code == 0x2029;
}

// Maps each run by itself, so that each keeps its origin.
Value map_runs(Runtime& rt, const Str& text, std::string (*map)(std::string_view)) {
  Builder out(rt);
  size_t begin = 0;
  for (const Str::Run& run : text.runs()) {
    rt.step(static_cast<int64_t>((run.end - begin) / 16));
    out.append(map(text.bytes().substr(begin, run.end - begin)), run.origin);
    begin = run.end;
  }
  return out.finish();
}

bool is_one_of(std::string_view chars, uint32_t code) {
  for (size_t pos = 0; pos < chars.size();) {
    if (next_char(chars, &pos) == code) return true;
  }
  return false;
}

}  // namespace

// memmem is linear in the two lengths, whatever the text.
size_t find_text(Runtime& rt, std::string_view text, std::string_view what, size_t from) {
  if (from > text.size()) return std::string_view::npos;
  const char* start = text.data() + from;
  const void* found = memmem(start, text.size() - from, what.data(), what.size());
  const size_t at = found == nullptr
                        ? std::string_view::npos
                        : static_cast<size_t>(static_cast<const char*>(found) - text.data());
  const size_t scanned = (found == nullptr ? text.size() : at) - from + what.size();
  rt.step(static_cast<int64_t>(scanned / 64 + 1));
  return at;
}

size_t find_text_backwards(Runtime& rt, std::string_view text, std::string_view what, size_t end) {
  end = std::min(end, text.size());
  if (what.size() > end) return std::string_view::npos;
  for (size_t at = end - what.size();; --at) {
    if (what.empty()) return at;
    if (text[at] == what[0]) {
      rt.step(static_cast<int64_t>(what.size() / 64 + 1));
      if (text.substr(at, what.size()) == what) return at;
    }
    if (at == 0) return std::string_view::npos;
  }
}

Value strip(Runtime& rt, const Value& text, const Value& chars, StripSide side) {
  const Str& str = text.as_str();
  const std::string_view bytes = str.bytes();
  size_t begin = 0;
  size_t end = bytes.size();
  rt.step(static_cast<int64_t>(end / 64));
  if (!given(chars)) {
    if (side != StripSide::left) end = end_without_space(bytes);
    if (side != StripSide::right) begin = std::min(skip_space(bytes), end);
    return rt.str(str.slice(begin, end));
  }
  const std::string_view set = want_string(rt, chars, "strip").bytes();
  while (side != StripSide::right && begin < end) {
    size_t next = begin;
    rt.step(static_cast<int64_t>(set.size() / 16));
    if (!is_one_of(set, next_char(bytes, &next))) break;
    begin = next;
  }
  while (side != StripSide::left && end > begin) {
    size_t start = end - 1;
    while (start > begin && (bytes[start] & 0xc0) == 0x80) --start;
    size_t pos = start;
    rt.step(static_cast<int64_t>(set.size() / 16));
    if (!is_one_of(set, next_char(bytes, &pos))) break;
    end = start;
  }
  return rt.str(str.slice(begin, end));
}

Value replace(Runtime& rt, const Value& text, const Value& from, const Value& to, int64_t count) {
  const Str& str = text.as_str();
  const std::string_view bytes = str.bytes();
  const std::string_view what = from.bytes();
  Builder out(rt);
  size_t begin = 0;
  while (count != 0) {
    size_t at = find_text(rt, bytes, what, begin);
    if (at == std::string_view::npos) break;
    size_t next = at + what.size();
    out.append(str, begin, at);
    out.append(to.as_str());
    if (what.empty()) {  // between all characters
      if (at == bytes.size()) return out.finish();
      next_char(bytes, &next);
      out.append(str, at, next);
    }
    begin = next;
    if (count > 0) --count;
  }
  out.append(str, begin, bytes.size());
  return out.finish();
}

Value upper(Runtime& rt, const Value& text) {
  return map_runs(rt, text.as_str(), to_upper);
}

Value lower(Runtime& rt, const Value& text) {
  return map_runs(rt, text.as_str(), to_lower);
}

Value capitalize(Runtime& rt, const Value& text) {
  const Str& str = text.as_str();
  if (str.empty()) return text;
  size_t first = 0;
  next_char(str.bytes(), &first);
  Builder out(rt);
  out.append(upper(rt, rt.str(str.slice(0, first))).as_str());
  out.append(lower(rt, rt.str(str.slice(first, str.size()))).as_str());
  return out.finish();
}

Value join(Runtime& rt, const Value& separator, const List& items) {
  Builder out(rt);
  for (size_t i = 0; i < items.items.size(); ++i) {
    rt.step();
    if (i > 0) print(&out, rt, separator);
    print(&out, rt, items.items[i]);
  }
  return out.finish();
}

std::vector<std::pair<size_t, size_t>> split_lines(std::string_view text) {
  std::vector<std::pair<size_t, size_t>> lines;
  size_t begin = 0;
  for (size_t pos = 0; pos < text.size();) {
    const size_t end = pos;
    const uint32_t code = next_char(text, &pos);
    if (!is_line_end(code)) continue;
    if (code == '\r' && pos < text.size() && text[pos] == '\n') ++pos;
    lines.emplace_back(begin, end);
    begin = pos;
  }
  if (begin < text.size()) lines.emplace_back(begin, text.size());
  return lines;
}

int64_t integer_or(Runtime& rt, const Value& value, int64_t otherwise) {
  if (!given(value)) return otherwise;
  if (!value.is_integral()) rt.fail("an integer is wanted, got {}", type_name(value));
  return value.as_integer();
}

bool truth_or(const Value& value, bool otherwise) {
  return value.is_undefined() ? otherwise : truth(value);
}

const Value& want_string(Runtime& rt, const Value& value, std::string_view callee) {
  if (value.is_undefined() && value.undefined_message() != nullptr) fail_undefined(rt, value);
  if (!value.is_string()) rt.fail("{} wants a string, got {}", callee, type_name(value));
  return value;
}

}  // namespace pagoda::jinja
