// Python's str methods. Positions and counts are in characters; pieces of a string keep its
// origins.
#include <charconv>

#include "text/jinja_functions.h"
#include "text/jinja_operators.h"
#include "text/jinja_print.h"
#include "text/jinja_unicode.h"

namespace pagoda::jinja {
namespace {

template <StripSide kSide>
Value strip_method(Runtime& rt, const Value& self, const Args& args) {
  return strip(rt, self, args.bind(rt, "strip", {"chars"})[0], kSide);
}

template <Value (*kMap)(Runtime&, const Value&)>
Value map_method(Runtime& rt, const Value& self, const Args& args) {
  args.bind(rt, "a method that changes case", {});
  return kMap(rt, self);
}

// Letters behind what is not a letter in upper case, the others in lower case.
Value title(Runtime& rt, const Value& self, const Args& args) {
  args.bind(rt, "title", {});
  const Str& str = self.as_str();
  Builder out(rt);
  bool in_word = false;
  for (size_t pos = 0; pos < str.size();) {
    const size_t begin = pos;
    const uint32_t code = next_char(str.bytes(), &pos);
    const Value one = rt.str(str.slice(begin, pos));
    out.append((in_word ? lower(rt, one) : upper(rt, one)).as_str());
    in_word = is_upper(code) || is_lower(code);
  }
  return out.finish();
}

List* split_at_space(Runtime& rt, const Str& str, int64_t limit) {
  List* result = rt.list();
  const std::string_view text = str.bytes();
  size_t pos = skip_space(text);
  while (pos < text.size()) {
    size_t end = pos;
    if (limit == 0) {
      end = end_without_space(text);
      rt.push(result, rt.str(str.slice(pos, end)));
      break;
    }
    for (size_t next = pos; next < text.size(); end = next) {
      if (is_space(next_char(text, &next))) break;
    }
    rt.push(result, rt.str(str.slice(pos, end)));
    rt.step(static_cast<int64_t>((end - pos) / 64));
    pos = end + skip_space(text.substr(end));
    --limit;
  }
  return result;
}

Value split(Runtime& rt, const Value& self, const Args& args) {
  const auto bound = args.bind(rt, "split", {"sep", "maxsplit"});
  const Str& str = self.as_str();
  int64_t limit = integer_or(rt, bound[1], -1);
  if (bound[0].is_undefined() || bound[0].is(Type::none)) {
    return Value(split_at_space(rt, str, limit));
  }
  const std::string_view sep = want_string(rt, bound[0], "split").bytes();
  if (sep.empty()) rt.fail("split wants a separator that is not empty");
  List* result = rt.list();
  size_t begin = 0;
  while (limit != 0) {
    const size_t at = find_text(rt, str.bytes(), sep, begin);
    if (at == std::string_view::npos) break;
    rt.push(result, rt.str(str.slice(begin, at)));
    begin = at + sep.size();
    if (limit > 0) --limit;
  }
  rt.push(result, rt.str(str.slice(begin, str.size())));
  return Value(result);
}

Value rsplit(Runtime& rt, const Value& self, const Args& args) {
  const auto bound = args.bind(rt, "rsplit", {"sep", "maxsplit"});
  int64_t limit = integer_or(rt, bound[1], -1);
  if (limit < 0) return split(rt, self, args);
  const std::string_view sep = want_string(rt, bound[0], "rsplit").bytes();
  if (sep.empty()) rt.fail("rsplit wants a separator that is not empty");
  const Str& str = self.as_str();
  std::vector<Value> pieces;
  size_t end = str.size();
  for (; limit > 0; --limit) {
    const size_t at = find_text_backwards(rt, str.bytes(), sep, end);
    if (at == std::string_view::npos) break;
    pieces.push_back(rt.str(str.slice(at + sep.size(), end)));
    end = at;
  }
  pieces.push_back(rt.str(str.slice(0, end)));
  List* result = rt.list();
  for (auto piece = pieces.rbegin(); piece != pieces.rend(); ++piece) rt.push(result, *piece);
  return Value(result);
}

Value splitlines(Runtime& rt, const Value& self, const Args& args) {
  args.bind(rt, "splitlines", {});
  List* result = rt.list();
  for (const auto& [begin, end] : split_lines(self.bytes())) {
    rt.push(result, rt.str(self.as_str().slice(begin, end)));
  }
  return Value(result);
}

template <bool kStart>
bool affix(std::string_view text, std::string_view part) {
  return kStart ? text.starts_with(part) : text.ends_with(part);
}

template <bool kStart>
Value has_affix(Runtime& rt, const Value& self, const Args& args) {
  const Value part = args.bind(rt, kStart ? "startswith" : "endswith", {"part"})[0];
  if (part.is(Type::tuple)) {
    for (const Value& item : part.as_list().items) {
      if (affix<kStart>(self.bytes(), want_string(rt, item, "startswith").bytes())) {
        return Value::boolean(true);
      }
    }
    return Value::boolean(false);
  }
  return Value::boolean(affix<kStart>(self.bytes(), want_string(rt, part, "startswith").bytes()));
}

template <bool kStart>
Value remove_affix(Runtime& rt, const Value& self, const Args& args) {
  const Value part = args.bind(rt, kStart ? "removeprefix" : "removesuffix", {"part"})[0];
  const size_t n = want_string(rt, part, "removeprefix").as_str().size();
  if (!affix<kStart>(self.bytes(), part.bytes())) return self;
  const size_t size = self.as_str().size();
  return rt.str(self.as_str().slice(kStart ? n : 0, kStart ? size : size - n));
}

Value replace_method(Runtime& rt, const Value& self, const Args& args) {
  const auto bound = args.bind(rt, "replace", {"old", "new", "count"});
  return replace(rt,
                 self,
                 want_string(rt, bound[0], "replace"),
                 want_string(rt, bound[1], "replace"),
                 integer_or(rt, bound[2], -1));
}

template <bool kForward, bool kMustBeThere>
Value find_method_of(Runtime& rt, const Value& self, const Args& args) {
  const Value what = args.bind(rt, "find", {"sub"})[0];
  want_string(rt, what, "find");
  const size_t at = kForward ? find_text(rt, self.bytes(), what.bytes())
                             : find_text_backwards(rt, self.bytes(), what.bytes());
  if (at == std::string_view::npos) {
    if (kMustBeThere) rt.fail("index: the string does not hold this text");
    return Value::integer(-1);
  }
  return Value::integer(num_chars(self.bytes().substr(0, at)));
}

Value count(Runtime& rt, const Value& self, const Args& args) {
  const Value what = args.bind(rt, "count", {"sub"})[0];
  const std::string_view sub = want_string(rt, what, "count").bytes();
  if (sub.empty()) return Value::integer(num_chars(self.bytes()) + 1);
  int64_t n = 0;
  for (size_t at = find_text(rt, self.bytes(), sub); at != std::string_view::npos;
       at = find_text(rt, self.bytes(), sub, at + sub.size())) {
    ++n;
  }
  return Value::integer(n);
}

Value join_method(Runtime& rt, const Value& self, const Args& args) {
  const List& items = items_of(rt, args.bind(rt, "join", {"items"})[0]);
  for (const Value& item : items.items) want_string(rt, item, "join");
  return join(rt, self, items);
}

template <bool kForward>
Value partition(Runtime& rt, const Value& self, const Args& args) {
  const Value what = args.bind(rt, "partition", {"sep"})[0];
  const std::string_view sep = want_string(rt, what, "partition").bytes();
  const Str& str = self.as_str();
  const size_t at =
      kForward ? find_text(rt, str.bytes(), sep) : find_text_backwards(rt, str.bytes(), sep);
  const bool found = at != std::string_view::npos;
  const size_t begin = found ? at : kForward ? str.size() : 0;
  const size_t end = found ? at + sep.size() : begin;
  List* result = rt.list();
  rt.push(result, rt.str(str.slice(0, begin)));
  rt.push(result, rt.str(str.slice(begin, end)));
  rt.push(result, rt.str(str.slice(end, str.size())));
  return Value(result, Type::tuple);
}

// The fields {} {0} {name} of str.format, without conversions or format specs.
Value format(Runtime& rt, const Value& self, const Args& args) {
  const Str& str = self.as_str();
  const std::string_view text = str.bytes();
  Builder out(rt);
  size_t automatic = 0;
  for (size_t pos = 0; pos < text.size();) {
    const char c = text[pos];
    if (c != '{' && c != '}') {
      const size_t next = std::min(text.find_first_of("{}", pos), text.size());
      out.append(str, pos, next);
      pos = next;
    } else if (pos + 1 < text.size() && text[pos + 1] == c) {
      out.append(str, pos, pos + 1);
      pos += 2;
    } else {
      const size_t end = text.find('}', pos);
      if (c == '}' || end == std::string_view::npos) rt.fail("format: a brace without its partner");
      const std::string_view field = text.substr(pos + 1, end - pos - 1);
      size_t index = 0;
      const auto parsed = std::from_chars(field.data(), field.data() + field.size(), index);
      const Value* value = nullptr;
      if (field.empty()) index = automatic++;
      if (field.empty() || parsed.ptr == field.data() + field.size()) {
        if (index < args.positional.size()) value = &args.positional[index];
      } else {
        for (const auto& [name, named] : args.named) {
          if (name == field) value = &named;
        }
      }
      if (value == nullptr) rt.fail("format: nothing was given for '{{{}}}'", field);
      print(&out, rt, *value);
      pos = end + 1;
    }
  }
  return out.finish();
}

template <bool (*kIs)(uint32_t)>
Value all_chars(Runtime& rt, const Value& self, const Args& args) {
  args.bind(rt, "a method that looks at characters", {});
  rt.step(static_cast<int64_t>(self.as_str().size() / 32));
  for (size_t pos = 0; pos < self.bytes().size();) {
    if (!kIs(next_char(self.bytes(), &pos))) return Value::boolean(false);
  }
  return Value::boolean(!self.bytes().empty());
}

bool is_alnum(uint32_t code) {
  return is_alpha(code) || is_decimal(code);
}

// Some letter has this case and none the other.
template <bool kUpper>
Value all_cased(Runtime& rt, const Value& self, const Args& args) {
  args.bind(rt, kUpper ? "isupper" : "islower", {});
  rt.step(static_cast<int64_t>(self.as_str().size() / 32));
  bool some = false;
  for (size_t pos = 0; pos < self.bytes().size();) {
    const uint32_t code = next_char(self.bytes(), &pos);
    if (kUpper ? is_lower(code) : is_upper(code)) return Value::boolean(false);
    some = some || (kUpper ? is_upper(code) : is_lower(code));
  }
  return Value::boolean(some);
}

constexpr NamedFunction kMethods[] = {
    {"strip", strip_method<StripSide::both>},
    {"lstrip", strip_method<StripSide::left>},
    {"rstrip", strip_method<StripSide::right>},
    {"upper", map_method<upper>},
    {"lower", map_method<lower>},
    {"capitalize", map_method<capitalize>},
    {"title", title},
    {"split", split},
    {"rsplit", rsplit},
    {"splitlines", splitlines},
    {"startswith", has_affix<true>},
    {"endswith", has_affix<false>},
    {"removeprefix", remove_affix<true>},
    {"removesuffix", remove_affix<false>},
    {"replace", replace_method},
    {"find", find_method_of<true, false>},
    {"rfind", find_method_of<false, false>},
    {"index", find_method_of<true, true>},
    {"rindex", find_method_of<false, true>},
    {"count", count},
    {"join", join_method},
    {"partition", partition<true>},
    {"rpartition", partition<false>},
    {"format", format},
    {"isdigit", all_chars<is_decimal>},
    {"isdecimal", all_chars<is_decimal>},
    {"isnumeric", all_chars<is_decimal>},
    {"isalpha", all_chars<is_alpha>},
    {"isalnum", all_chars<is_alnum>},
    {"isspace", all_chars<is_space>},
    {"isupper", all_cased<true>},
    {"islower", all_cased<false>},
};

}  // namespace

Function find_string_method(std::string_view name) {
  for (const NamedFunction& entry : kMethods) {
    if (entry.name == name) return entry.function;
  }
  return nullptr;
}

}  // namespace pagoda::jinja
