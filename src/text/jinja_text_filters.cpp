// Filters that make text or numbers of one value.
#include <charconv>
#include <cmath>

#include "text/jinja_functions.h"
#include "text/jinja_operators.h"
#include "text/jinja_print.h"
#include "text/jinja_unicode.h"

namespace pagoda::jinja {
namespace {

Value trim(Runtime& rt, const Value& v, const Args& args) {
  return strip(rt, to_str(rt, v), args.bind(rt, "trim", {"chars"})[0], StripSide::both);
}

template <Value (*kMap)(Runtime&, const Value&)>
Value map_text(Runtime& rt, const Value& v, const Args& args) {
  args.bind(rt, "a filter that changes case", {});
  return kMap(rt, to_str(rt, v));
}

// Each word in lower case with a capital; words begin behind blanks and - ( { [ <.
Value title(Runtime& rt, const Value& v, const Args& args) {
  args.bind(rt, "title", {});
  const Value text = to_str(rt, v);
  const Str& str = text.as_str();
  Builder out(rt);
  size_t begin = 0;
  const auto flush = [&](size_t end) {
    if (begin < end) out.append(capitalize(rt, rt.str(str.slice(begin, end))).as_str());
  };
  for (size_t pos = 0; pos < str.size();) {
    const size_t at = pos;
    const uint32_t code = next_char(str.bytes(), &pos);
    const bool border =
        is_space(code) || code == '-' || code == '(' || code == '{' || code == '[' || code == '<';
    if (!border) continue;
    flush(at);
    out.append(str, at, pos);
    begin = pos;
  }
  flush(str.size());
  return out.finish();
}

Value replace_filter(Runtime& rt, const Value& v, const Args& args) {
  const auto bound = args.bind(rt, "replace", {"old", "new", "count"});
  if (bound[0].is_undefined() || bound[1].is_undefined()) rt.fail("replace wants two strings");
  return replace(
      rt, to_str(rt, v), to_str(rt, bound[0]), to_str(rt, bound[1]), integer_or(rt, bound[2], -1));
}

Value as_string(Runtime& rt, const Value& v, const Args& args) {
  args.bind(rt, "string", {});
  return to_str(rt, v);
}

Value escape(Runtime& rt, const Value& v, const Args& args) {
  args.bind(rt, "escape", {});
  const Value text = to_str(rt, v);
  const Str& str = text.as_str();
  Builder out(rt);
  size_t begin = 0;
  for (size_t i = 0; i < str.size(); ++i) {
    const char c = str.bytes()[i];
    const std::string_view entity = c == '&'    ? "&amp;"
                                    : c == '<'  ? "&lt;"
                                    : c == '>'  ? "&gt;"
                                    : c == '\'' ? "&#39;"
                                    : c == '"'  ? "&#34;"
                                                : "";
    if (entity.empty()) continue;
    out.append(str, begin, i);
    out.append(entity, str.slice(i, i + 1).origin());
    begin = i + 1;
  }
  out.append(str, begin, str.size());
  return out.finish();
}

Value indent(Runtime& rt, const Value& v, const Args& args) {
  const auto bound = args.bind(rt, "indent", {"width", "first", "blank"});
  const Value text = to_str(rt, v);
  const Value width =
      bound[0].is_string()
          ? bound[0]
          : arithmetic(rt, Op::mul, rt.str(" "), Value::integer(integer_or(rt, bound[0], 4)));
  const bool blank = truth_or(bound[2], false);
  Builder out(rt);
  if (truth_or(bound[1], false)) out.append(width.as_str());
  auto lines = split_lines(text.bytes());
  // An end of line at the very end of the text makes one more, empty line.
  const bool ends_inside = !lines.empty() && lines.back().second == text.bytes().size();
  if (!ends_inside) lines.emplace_back(text.bytes().size(), text.bytes().size());
  for (size_t i = 0; i < lines.size(); ++i) {
    const auto [begin, end] = lines[i];
    rt.step();
    if (i > 0) out.append("\n", TextOrigin::markup);
    if (i > 0 && (blank || begin < end)) out.append(width.as_str());
    out.append(text.as_str(), begin, end);
  }
  return out.finish();
}

Value tojson(Runtime& rt, const Value& v, const Args& args) {
  const auto bound = args.bind(rt, "tojson", {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ensure_ascii = truth_or(bound[0], false);
  style.sort_keys = truth_or(bound[3], false);
  if (bound[1].is_string()) {
    style.indent.assign(bound[1].bytes());
    style.multi_line = true;
  } else if (!bound[1].is_undefined() && !bound[1].is(Type::none)) {
    const int64_t width = std::max<int64_t>(integer_or(rt, bound[1], 0), 0);
    if (width > 1000) rt.fail("tojson indents by 1000 columns at most");
    style.indent.assign(static_cast<size_t>(width), ' ');
    style.multi_line = true;
  }
  if (style.multi_line) style.item_separator.pop_back();  // no blank before a new line
  if (!bound[2].is_undefined() && !bound[2].is(Type::none)) {
    const List& separators = items_of(rt, bound[2]);
    if (separators.items.size() != 2) rt.fail("tojson: separators wants two strings");
    style.item_separator = want_string(rt, separators.items[0], "tojson").bytes();
    style.key_separator = want_string(rt, separators.items[1], "tojson").bytes();
  }
  return to_json(rt, v, style);
}

std::string number_text(const Value& v) {
  const std::string_view bytes = v.bytes();
  const size_t begin = skip_space(bytes);
  std::string text(bytes.substr(begin, std::max(end_without_space(bytes), begin) - begin));
  if (!text.empty() && text[0] == '+') text.erase(0, 1);
  return text;
}

bool parse_real(const Value& v, double* out) {
  const std::string text = number_text(v);
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, *out);
  return !text.empty() && parsed.ptr == end && parsed.ec != std::errc::invalid_argument;
}

Value real_to_integer(const Value& otherwise, double x) {
  if (!(std::abs(x) < 9.2e18)) return otherwise;
  return Value::integer(static_cast<int64_t>(x));
}

Value to_integer(Runtime& rt, const Value& v, const Args& args) {
  const auto bound = args.bind(rt, "int", {"default", "base"});
  const Value otherwise = bound[0].is_undefined() ? Value::integer(0) : bound[0];
  if (v.is_integral()) return Value::integer(v.as_integer());
  if (v.is(Type::real)) return real_to_integer(otherwise, v.as_real());
  if (v.is_undefined()) fail_undefined(rt, v);
  if (!v.is_string()) return otherwise;
  const int64_t base = integer_or(rt, bound[1], 10);
  if (base < 2 || base > 36) rt.fail("int knows the bases 2 to 36");
  std::string text = number_text(v);
  const size_t digits = !text.empty() && text[0] == '-' ? 1 : 0;
  const std::string prefix = text.substr(digits, 2);
  if ((base == 16 && (prefix == "0x" || prefix == "0X")) ||
      (base == 8 && (prefix == "0o" || prefix == "0O")) ||
      (base == 2 && (prefix == "0b" || prefix == "0B"))) {
    text.erase(digits, 2);
  }
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value, static_cast<int>(base));
  if (!text.empty() && parsed.ptr == end && parsed.ec == std::errc()) return Value::integer(value);
  double real = 0;
  return parse_real(v, &real) ? real_to_integer(otherwise, real) : otherwise;
}

Value to_real(Runtime& rt, const Value& v, const Args& args) {
  const auto bound = args.bind(rt, "float", {"default"});
  if (v.is_number()) return Value::real(v.as_real());
  if (v.is_undefined()) fail_undefined(rt, v);
  double real = 0;
  if (v.is_string() && parse_real(v, &real)) return Value::real(real);
  return bound[0].is_undefined() ? Value::real(0) : bound[0];
}

Value round(Runtime& rt, const Value& v, const Args& args) {
  const auto bound = args.bind(rt, "round", {"precision", "method"});
  const int64_t precision = integer_or(rt, bound[0], 0);
  if (!v.is_number() || precision < 0 || precision > 100) {
    rt.fail("round wants a number and a precision from 0 to 100");
  }
  const std::string_view method = bound[1].is_undefined() ? "common"
                                  : bound[1].is_string()  ? bound[1].bytes()
                                                          : "";
  if (method == "common") {
    if (v.is_integral()) return Value::integer(v.as_integer());
    if (!std::isfinite(v.as_real())) return v;
    const std::string text = fmt::format("{:.{}f}", v.as_real(), precision);
    double result = 0;
    std::from_chars(text.data(), text.data() + text.size(), result);
    return Value::real(result);
  }
  if (method != "ceil" && method != "floor") rt.fail("round knows common, ceil and floor");
  const double scale = std::pow(10.0, static_cast<double>(precision));
  const double scaled = v.as_real() * scale;
  return Value::real((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale);
}

Value absolute(Runtime& rt, const Value& v, const Args& args) {
  args.bind(rt, "abs", {});
  if (v.is_integral()) return v.as_integer() < 0 ? negate(rt, v) : Value::integer(v.as_integer());
  if (v.is(Type::real)) return Value::real(std::abs(v.as_real()));
  rt.fail("abs wants a number, got {}", type_name(v));
}

Value default_value(Runtime& rt, const Value& v, const Args& args) {
  const auto bound = args.bind(rt, "default", {"default_value", "boolean"});
  const bool missing = v.is_undefined() || (truth_or(bound[1], false) && !truth(v));
  if (!missing) return v;
  return args.positional.empty() && args.named.empty() ? rt.str("") : bound[0];
}

constexpr NamedFunction kFilters[] = {
    {"trim", trim},
    {"upper", map_text<upper>},
    {"lower", map_text<lower>},
    {"capitalize", map_text<capitalize>},
    {"title", title},
    {"replace", replace_filter},
    {"string", as_string},
    {"safe", as_string},
    {"escape", escape},
    {"e", escape},
    {"forceescape", escape},
    {"indent", indent},
    {"tojson", tojson},
    {"int", to_integer},
    {"float", to_real},
    {"round", round},
    {"abs", absolute},
    {"default", default_value},
    {"d", default_value},
};

}  // namespace

Function find_text_filter(std::string_view name) {
  for (const NamedFunction& entry : kFilters) {
    if (entry.name == name) return entry.function;
  }
  return nullptr;
}

}  // namespace pagoda::jinja
