#include "text/jinja_operators.h"

#include <cmath>

#include "text/jinja_print.h"
#include "text/jinja_unicode.h"

namespace pagoda::jinja {
namespace {

int sign(double x) {
  return x < 0 ? -1 : x > 0 ? 1 : 0;
}

int order_numbers(const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral()) {
    return a.as_integer() < b.as_integer() ? -1 : a.as_integer() > b.as_integer() ? 1 : 0;
  }
  return sign(a.as_real() - b.as_real());
}

bool equal_dicts(Runtime& rt, const Dict& a, const Dict& b) {
  if (a.entries.size() != b.entries.size()) return false;
  for (const auto& [key, value] : a.entries) {
    const Value* other = rt.find(b, key);
    if (other == nullptr || !equal(rt, value, *other)) return false;
  }
  return true;
}

[[noreturn]] void fail_types(Runtime& rt, std::string_view op, const Value& a, const Value& b) {
  if (a.is_undefined()) fail_undefined(rt, a);
  if (b.is_undefined()) fail_undefined(rt, b);
  rt.fail("'{}' does not work between {} and {}", op, type_name(a), type_name(b));
}

Value integer_arithmetic(Runtime& rt, Op op, int64_t a, int64_t b) {
  int64_t r = 0;
  bool overflow = false;
  switch (op) {
    case Op::add:
      overflow = __builtin_add_overflow(a, b, &r);
      break;
    case Op::sub:
      overflow = __builtin_sub_overflow(a, b, &r);
      break;
    case Op::mul:
      overflow = __builtin_mul_overflow(a, b, &r);
      break;
    case Op::div:
      if (b == 0) rt.fail("division by zero");
      return Value::real(static_cast<double>(a) / static_cast<double>(b));
    case Op::floor_div:
    case Op::mod: {
      if (b == 0) rt.fail("division by zero");
      if (b == -1) return op == Op::mod ? Value::integer(0) : integer_arithmetic(rt, Op::sub, 0, a);
      const int64_t rest = a % b;
      const bool adjust = rest != 0 && (rest < 0) != (b < 0);
      return Value::integer(op == Op::mod ? rest + (adjust ? b : 0) : a / b - (adjust ? 1 : 0));
    }
    default:  // pow
      if (b < 0) {
        if (a == 0) rt.fail("division by zero");
        return Value::real(std::pow(static_cast<double>(a), static_cast<double>(b)));
      }
      r = 1;
      for (int64_t base = a; b > 0 && !overflow; b >>= 1) {
        if (b & 1) overflow = __builtin_mul_overflow(r, base, &r);
        if (b > 1) overflow = __builtin_mul_overflow(base, base, &base) || overflow;
      }
  }
  if (overflow) throw Error("template.limit", "line {}: an integer leaves 64 bits", rt.line());
  return Value::integer(r);
}

Value real_arithmetic(Runtime& rt, Op op, double a, double b) {
  switch (op) {
    case Op::add:
      return Value::real(a + b);
    case Op::sub:
      return Value::real(a - b);
    case Op::mul:
      return Value::real(a * b);
    case Op::pow:
      return Value::real(std::pow(a, b));
    default:
      break;
  }
  if (b == 0) rt.fail("division by zero");
  if (op == Op::div) return Value::real(a / b);
  double rest = std::fmod(a, b);
  if (rest != 0 && (rest < 0) != (b < 0)) rest += b;
  return Value::real(op == Op::mod ? rest : std::floor(a / b));
}

Value repeat(Runtime& rt, const Value& value, int64_t count) {
  if (value.is_string()) {
    Builder out(rt);
    if (value.as_str().empty()) count = 0;
    for (int64_t i = 0; i < count; ++i) {
      rt.step();
      out.append(value.as_str());
    }
    return out.finish();
  }
  List* result = rt.list();
  if (value.as_list().items.empty()) count = 0;
  for (int64_t i = 0; i < count; ++i) {
    for (const Value& item : value.as_list().items) rt.push(result, item);
  }
  return Value(result, value.type());
}

Value add_sequences(Runtime& rt, const Value& a, const Value& b) {
  List* result = rt.list();
  for (const Value& item : a.as_list().items) rt.push(result, item);
  for (const Value& item : b.as_list().items) rt.push(result, item);
  return Value(result, a.type());
}

}  // namespace

void fail_undefined(Runtime& rt, const Value& value) {
  const Str* message = value.undefined_message();
  rt.fail("{}", message == nullptr ? "the value is undefined" : message->bytes());
}

bool truth(const Value& value) {
  switch (value.type()) {
    case Type::undefined:
    case Type::none:
      return false;
    case Type::boolean:
    case Type::integer:
      return value.as_integer() != 0;
    case Type::real:
      return value.as_real() != 0;
    case Type::string:
      return !value.as_str().empty();
    case Type::list:
    case Type::tuple:
      return !value.as_list().items.empty();
    case Type::dict:
      return !value.as_dict().entries.empty();
    default:
      return true;
  }
}

bool equal(Runtime& rt, const Value& a, const Value& b) {
  const Depth depth(rt);
  rt.step();
  if (a.is_number() && b.is_number())
    return order_numbers(a, b) == 0 && !std::isnan(a.as_real() + b.as_real());
  if (a.type() != b.type()) return false;
  switch (a.type()) {
    case Type::undefined:
    case Type::none:
      return true;
    case Type::string:
      return a.bytes() == b.bytes();
    case Type::list:
    case Type::tuple: {
      const auto& x = a.as_list().items;
      const auto& y = b.as_list().items;
      if (x.size() != y.size()) return false;
      for (size_t i = 0; i < x.size(); ++i) {
        if (!equal(rt, x[i], y[i])) return false;
      }
      return true;
    }
    case Type::dict:
      return equal_dicts(rt, a.as_dict(), b.as_dict());
    default:
      return a.same(b);
  }
}

int order(Runtime& rt, const Value& a, const Value& b) {
  const Depth depth(rt);
  rt.step();
  if (a.is_number() && b.is_number()) return order_numbers(a, b);
  if (a.is_string() && b.is_string()) return sign(a.bytes().compare(b.bytes()));
  if (!a.is_sequence() || a.type() != b.type()) fail_types(rt, "<", a, b);
  const auto& x = a.as_list().items;
  const auto& y = b.as_list().items;
  for (size_t i = 0; i < x.size() && i < y.size(); ++i) {
    if (!equal(rt, x[i], y[i])) return order(rt, x[i], y[i]);
  }
  return x.size() < y.size() ? -1 : x.size() > y.size() ? 1 : 0;
}

bool contains(Runtime& rt, const Value& container, const Value& item) {
  switch (container.type()) {
    case Type::undefined:
      return false;
    case Type::string:
      if (!item.is_string()) fail_types(rt, "in", item, container);
      rt.step(static_cast<int64_t>(container.as_str().size() / 64));
      return container.bytes().find(item.bytes()) != std::string_view::npos;
    case Type::list:
    case Type::tuple:
      for (const Value& candidate : container.as_list().items) {
        if (equal(rt, candidate, item)) return true;
      }
      return false;
    case Type::dict:
      return rt.find(container.as_dict(), item) != nullptr;
    default:
      fail_types(rt, "in", item, container);
  }
}

bool compare(Runtime& rt, Op op, const Value& a, const Value& b) {
  switch (op) {
    case Op::eq:
      return equal(rt, a, b);
    case Op::ne:
      return !equal(rt, a, b);
    case Op::in:
      return contains(rt, b, a);
    case Op::not_in:
      return !contains(rt, b, a);
    default:
      break;
  }
  if (a.is_number() && b.is_number() && std::isnan(a.as_real() + b.as_real())) return false;
  const int result = order(rt, a, b);
  return op == Op::lt   ? result < 0
         : op == Op::le ? result <= 0
         : op == Op::gt ? result > 0
                        : result >= 0;
}

Value arithmetic(Runtime& rt, Op op, const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral()) {
    return integer_arithmetic(rt, op, a.as_integer(), b.as_integer());
  }
  if (a.is_number() && b.is_number()) return real_arithmetic(rt, op, a.as_real(), b.as_real());
  if (op == Op::add && a.is_string() && b.is_string()) {
    Builder out(rt);
    out.append(a.as_str());
    out.append(b.as_str());
    return out.finish();
  }
  if (op == Op::add && a.is_sequence() && a.type() == b.type()) return add_sequences(rt, a, b);
  if (op == Op::mul) {
    if ((a.is_string() || a.is_sequence()) && b.is_integral()) return repeat(rt, a, b.as_integer());
    if ((b.is_string() || b.is_sequence()) && a.is_integral()) return repeat(rt, b, a.as_integer());
  }
  static constexpr std::string_view kNames[] = {"+", "-", "*", "/", "//", "%", "**"};
  fail_types(rt, kNames[static_cast<size_t>(op)], a, b);
}

Value negate(Runtime& rt, const Value& value) {
  if (value.is_integral()) return integer_arithmetic(rt, Op::sub, 0, value.as_integer());
  if (value.is(Type::real)) return Value::real(-value.as_real());
  if (value.is_undefined()) fail_undefined(rt, value);
  rt.fail("'-' does not work on {}", type_name(value));
}

}  // namespace pagoda::jinja
