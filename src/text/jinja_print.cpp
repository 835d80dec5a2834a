#include "text/jinja_print.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "text/jinja_unicode.h"

namespace pagoda::jinja {
namespace {

constexpr const char* kHex = "0123456789abcdef";

// Text computed from values, and whether any of them came from the request.
class Writer {
 public:
  explicit Writer(Runtime& rt) : rt_(rt) {}
  void add(std::string_view text) {
    rt_.step(static_cast<int64_t>(text.size() / 64));
    if (static_cast<int64_t>(out_.size() + text.size()) > rt_.limits().max_output_bytes) {
      rt_.exceed("output");
    }
    out_ += text;
  }
  void saw(const Str& text) {
    if (text.origin() == TextOrigin::plain) origin_ = TextOrigin::plain;
  }
  const std::string& out() const { return out_; }
  TextOrigin origin() const { return origin_; }
  Value finish() { return rt_.str(Str(std::move(out_), origin_)); }

 private:
  Runtime& rt_;
  std::string out_;
  TextOrigin origin_ = TextOrigin::markup;
};

void append_hex(std::string* out, uint32_t code, int digits) {
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) *out += kHex[code >> shift & 15];
}

std::string string_repr(std::string_view text) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const bool has_double = text.find('"') != std::string_view::npos;
  const char quote = has_single && !has_double ? '"' : '\'';
  std::string out(1, quote);
  for (size_t pos = 0; pos < text.size();) {
    const uint32_t code = next_char(text, &pos);
    if (code == static_cast<uint32_t>(quote) || code == '\\') {
      out += '\\';
      out += static_cast<char>(code);
    } else if (code == '\n' || code == '\r' || code == '\t') {
      out += code == '\n' ? "\\n" : code == '\r' ? "\\r" : "\\t";
    } else if (is_printable(code)) {
      append_char(&out, code);
    } else if (code < 0x100) {
      out += "\\x";
      append_hex(&out, code, 2);
    } else if (code < 0x10000) {
      out += "\\u";
      append_hex(&out, code, 4);
    } else {
      out += "\\U";
      append_hex(&out, code, 8);
    }
  }
  return out + quote;
}

void repr(Writer* out, Runtime& rt, const Value& value);

void repr_dict(Writer* out, Runtime& rt, const Dict& dict) {
  out->add("{");
  bool first = true;
  for (const auto& [key, value] : dict.entries) {
    if (!std::exchange(first, false)) out->add(", ");
    repr(out, rt, key);
    out->add(": ");
    repr(out, rt, value);
  }
  out->add("}");
}

void repr(Writer* out, Runtime& rt, const Value& value) {
  const Depth depth(rt);
  rt.step();
  switch (value.type()) {
    case Type::undefined:
      return out->add("Undefined");
    case Type::none:
      return out->add("None");
    case Type::boolean:
      return out->add(value.as_integer() ? "True" : "False");
    case Type::integer:
      return out->add(std::to_string(value.as_integer()));
    case Type::real:
      return out->add(float_repr(value.as_real()));
    case Type::string:
      out->saw(value.as_str());
      return out->add(string_repr(value.bytes()));
    case Type::list:
    case Type::tuple: {
      const bool tuple = value.is(Type::tuple);
      const auto& items = value.as_list().items;
      out->add(tuple ? "(" : "[");
      for (size_t i = 0; i < items.size(); ++i) {
        if (i > 0) out->add(", ");
        repr(out, rt, items[i]);
      }
      if (tuple && items.size() == 1) out->add(",");
      return out->add(tuple ? ")" : "]");
    }
    case Type::dict:
      return repr_dict(out, rt, value.as_dict());
    case Type::name_space:
      out->add("<Namespace ");
      repr_dict(out, rt, value.as_dict());
      return out->add(">");
    case Type::loop:
      return out->add("<LoopContext>");
    case Type::callable:
      return out->add(fmt::format("<function {}>", value.as_callable().name));
  }
}

void json_string(Writer* out, std::string_view text, bool ensure_ascii) {
  static constexpr std::string_view kFrom = "\"\\\n\r\t\b\f";
  static constexpr std::string_view kTo = "\"\\nrtbf";
  std::string quoted = "\"";
  const auto unit = [&](uint32_t code) {
    quoted += "\\u";
    append_hex(&quoted, code, 4);
  };
  for (size_t pos = 0; pos < text.size();) {
    const size_t start = pos;
    const uint32_t code = next_char(text, &pos);
    const size_t known = code < 0x80 ? kFrom.find(static_cast<char>(code)) : std::string_view::npos;
    if (known != std::string_view::npos) {
      quoted += '\\';
      quoted += kTo[known];
    } else if (code < 0x20 || (ensure_ascii && code >= 0x7f && code < 0x10000)) {
      unit(code);
    } else if (ensure_ascii && code >= 0x10000) {
      unit(0xd800 + ((code - 0x10000) >> 10));
      unit(0xdc00 + ((code - 0x10000) & 0x3ff));
    } else {
      quoted += text.substr(start, pos - start);
    }
  }
  out->add(quoted + "\"");
}

std::string json_number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return float_repr(value);
}

class JsonWriter {
 public:
  JsonWriter(Writer* out, Runtime& rt, const JsonStyle& style)
      : out_(out), rt_(rt), style_(style) {}

  void write(const Value& value) {
    const Depth depth(rt_);
    rt_.step();
    switch (value.type()) {
      case Type::none:
        return out_->add("null");
      case Type::boolean:
        return out_->add(value.as_integer() ? "true" : "false");
      case Type::integer:
        return out_->add(std::to_string(value.as_integer()));
      case Type::real:
        return out_->add(json_number(value.as_real()));
      case Type::string:
        out_->saw(value.as_str());
        return json_string(out_, value.bytes(), style_.ensure_ascii);
      case Type::list:
      case Type::tuple:
        return write_list(value.as_list());
      case Type::dict:
        return write_dict(value.as_dict());
      default:
        rt_.fail("tojson cannot write a value of type {}", type_name(value));
    }
  }

 private:
  void new_line() {
    if (!style_.multi_line) return;
    out_->add("\n");
    for (int i = 0; i < level_; ++i) out_->add(style_.indent);
  }

  void write_list(const List& list) {
    if (list.items.empty()) return out_->add("[]");
    out_->add("[");
    ++level_;
    for (size_t i = 0; i < list.items.size(); ++i) {
      if (i > 0) out_->add(style_.item_separator);
      new_line();
      write(list.items[i]);
    }
    --level_;
    new_line();
    out_->add("]");
  }

  void write_key(const Value& key) {
    if (key.is_string()) {
      out_->saw(key.as_str());
      return json_string(out_, key.bytes(), style_.ensure_ascii);
    }
    if (key.is(Type::tuple)) rt_.fail("tojson cannot write a tuple as the key of a dict");
    out_->add("\"");
    write(key);
    out_->add("\"");
  }

  void write_dict(const Dict& dict) {
    if (dict.entries.empty()) return out_->add("{}");
    std::vector<size_t> order(dict.entries.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    if (style_.sort_keys) {
      for (const auto& entry : dict.entries) {
        if (!entry.first.is_string()) rt_.fail("tojson can sort only keys that are strings");
      }
      std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
        rt_.step();
        return dict.entries[a].first.bytes() < dict.entries[b].first.bytes();
      });
    }
    out_->add("{");
    ++level_;
    for (size_t i = 0; i < order.size(); ++i) {
      if (i > 0) out_->add(style_.item_separator);
      new_line();
      write_key(dict.entries[order[i]].first);
      out_->add(style_.key_separator);
      write(dict.entries[order[i]].second);
    }
    --level_;
    new_line();
    out_->add("}");
  }

  Writer* out_;
  Runtime& rt_;
  const JsonStyle& style_;
  int level_ = 0;
};

}  // namespace

std::string float_repr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char buffer[64];
  const auto end =
      std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::scientific).ptr;
  std::string_view text(buffer, static_cast<size_t>(end - buffer));
  std::string sign;
  if (text[0] == '-') {
    sign = "-";
    text.remove_prefix(1);
  }
  const size_t e = text.find('e');
  int exponent = 0;
  const size_t exponent_start = e + (text[e + 1] == '+' ? 2 : 1);
  std::from_chars(text.data() + exponent_start, text.data() + text.size(), exponent);
  std::string digits;
  for (const char c : text.substr(0, e)) {
    if (c != '.') digits += c;
  }
  if (exponent < -4 || exponent >= 16) {
    std::string mantissa = digits.substr(0, 1);
    if (digits.size() > 1) mantissa.append(".").append(digits.substr(1));
    return fmt::format(
        "{}{}e{}{:02}", sign, mantissa, exponent < 0 ? '-' : '+', std::abs(exponent));
  }
  if (exponent < 0) return fmt::format("{}0.{:0>{}}", sign, digits, digits.size() - exponent - 1);
  const auto whole = static_cast<size_t>(exponent) + 1;
  if (digits.size() <= whole) return fmt::format("{}{:0<{}}.0", sign, digits, whole);
  return fmt::format("{}{}.{}", sign, digits.substr(0, whole), digits.substr(whole));
}

void print(Builder* out, Runtime& rt, const Value& value) {
  if (value.is_undefined()) return;
  if (value.is_string()) return out->append(value.as_str());
  Writer writer(rt);
  repr(&writer, rt, value);
  out->append(writer.out(), writer.origin());
}

Value to_str(Runtime& rt, const Value& value) {
  if (value.is_string()) return value;
  Builder out(rt);
  print(&out, rt, value);
  return out.finish();
}

std::string_view type_name(const Value& value) {
  static constexpr std::string_view kNames[] = {"undefined",
                                                "none",
                                                "boolean",
                                                "integer",
                                                "float",
                                                "string",
                                                "list",
                                                "tuple",
                                                "dict",
                                                "namespace",
                                                "loop",
                                                "function"};
  return kNames[static_cast<size_t>(value.type())];
}

Value to_json(Runtime& rt, const Value& value, const JsonStyle& style) {
  Writer writer(rt);
  JsonWriter(&writer, rt, style).write(value);
  return writer.finish();
}

}  // namespace pagoda::jinja
