// The tests behind `is`.
#include <cmath>

#include "text/jinja_functions.h"
#include "text/jinja_operators.h"
#include "text/jinja_print.h"
#include "text/jinja_unicode.h"

namespace pagoda::jinja {
namespace {

template <Type kType>
bool is_type(Runtime&, const Value& v, const Args&) {
  return v.is(kType);
}

bool is_defined(Runtime&, const Value& v, const Args&) {
  return !v.is_undefined();
}

template <bool kValue>
bool is_boolean(Runtime&, const Value& v, const Args&) {
  return v.is(Type::boolean) && (v.as_integer() != 0) == kValue;
}

bool is_number(Runtime&, const Value& v, const Args&) {
  return v.is_number();
}

bool is_sequence(Runtime&, const Value& v, const Args&) {
  return v.is_sequence() || v.is_string() || v.is_mapping() || v.is_undefined();
}

bool is_iterable(Runtime& rt, const Value& v, const Args& args) {
  return is_sequence(rt, v, args) || v.is(Type::loop);
}

bool is_callable(Runtime&, const Value& v, const Args&) {
  return v.is(Type::callable) || v.is_undefined();
}

Value remainder(Runtime& rt, const Value& v, const Value& divisor) {
  return arithmetic(rt, Op::mod, v, divisor);
}

template <int64_t kRest>
bool is_parity(Runtime& rt, const Value& v, const Args&) {
  return equal(rt, remainder(rt, v, Value::integer(2)), Value::integer(kRest));
}

bool is_divisible(Runtime& rt, const Value& v, const Args& args) {
  return !truth(remainder(rt, v, args.bind(rt, "divisibleby", {"num"})[0]));
}

template <Op kOp>
bool is_compared(Runtime& rt, const Value& v, const Args& args) {
  if (args.positional.size() != 1) rt.fail("a comparing test wants one argument");
  return compare(rt, kOp, v, args.positional[0]);
}

bool is_same(Runtime& rt, const Value& v, const Args& args) {
  return v.same(args.bind(rt, "sameas", {"other"})[0]);
}

template <bool kUpper>
bool is_cased(Runtime& rt, const Value& v, const Args&) {
  const Value text = to_str(rt, v);
  bool some = false;
  for (size_t pos = 0; pos < text.bytes().size();) {
    const uint32_t code = next_char(text.bytes(), &pos);
    if (kUpper ? is_lower(code) : is_upper(code)) return false;
    some = some || (kUpper ? is_upper(code) : is_lower(code));
  }
  return some;
}

bool is_filter(Runtime& rt, const Value& v, const Args&) {
  return find_filter(want_string(rt, v, "filter").bytes()) != nullptr;
}

bool is_test(Runtime& rt, const Value& v, const Args&) {
  return find_test(want_string(rt, v, "test").bytes()) != nullptr;
}

constexpr struct {
  std::string_view name;
  Test test;
} kTests[] = {
    {"defined", is_defined},
    {"undefined", is_type<Type::undefined>},
    {"none", is_type<Type::none>},
    {"boolean", is_type<Type::boolean>},
    {"true", is_boolean<true>},
    {"false", is_boolean<false>},
    {"integer", is_type<Type::integer>},
    {"float", is_type<Type::real>},
    {"number", is_number},
    {"string", is_type<Type::string>},
    {"mapping", is_type<Type::dict>},
    {"sequence", is_sequence},
    {"iterable", is_iterable},
    {"callable", is_callable},
    {"even", is_parity<0>},
    {"odd", is_parity<1>},
    {"divisibleby", is_divisible},
    {"eq", is_compared<Op::eq>},
    {"equalto", is_compared<Op::eq>},
    {"ne", is_compared<Op::ne>},
    {"lt", is_compared<Op::lt>},
    {"lessthan", is_compared<Op::lt>},
    {"le", is_compared<Op::le>},
    {"gt", is_compared<Op::gt>},
    {"greaterthan", is_compared<Op::gt>},
    {"ge", is_compared<Op::ge>},
    {"in", is_compared<Op::in>},
    {"sameas", is_same},
    {"lower", is_cased<false>},
    {"upper", is_cased<true>},
    {"filter", is_filter},
    {"test", is_test},
};

}  // namespace

Test find_test(std::string_view name) {
  for (const auto& entry : kTests) {
    if (entry.name == name) return entry.test;
  }
  return nullptr;
}

}  // namespace pagoda::jinja
