// Value: what a template expression evaluates to, with Python's types and semantics.
//
// A Value is a small handle; strings, lists, dicts and callables live in the Runtime's arena, which
// owns them until the rendering ends (so nothing here frees, and freeing never recurses). Dicts
// keep insertion order. Lists grow only by append; namespaces by assignment.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "text/jinja_string.h"

namespace pagoda::jinja {

struct List;
struct Dict;
struct Loop;
struct Callable;

enum class Type {
  undefined,
  none,
  boolean,
  integer,
  real,
  string,
  list,
  tuple,
  dict,
  name_space,
  loop,
  callable,
};

class Value {
 public:
  Value() : Value(Type::undefined) {}
  static Value undefined(const Str* message) {
    Value v(Type::undefined);
    v.string_ = message;
    return v;
  }
  static Value none() { return Value(Type::none); }
  static Value boolean(bool value) {
    Value v(Type::boolean);
    v.integer_ = value ? 1 : 0;
    return v;
  }
  static Value integer(int64_t value) {
    Value v(Type::integer);
    v.integer_ = value;
    return v;
  }
  static Value real(double value) {
    Value v(Type::real);
    v.real_ = value;
    return v;
  }
  explicit Value(const Str* s) : Value(Type::string) { string_ = s; }
  explicit Value(List* l, Type type = Type::list) : Value(type) { list_ = l; }
  explicit Value(Dict* d, Type type = Type::dict) : Value(type) { dict_ = d; }
  explicit Value(Loop* l) : Value(Type::loop) { loop_ = l; }
  explicit Value(const Callable* c) : Value(Type::callable) { callable_ = c; }

  Type type() const { return type_; }
  bool is(Type type) const { return type_ == type; }
  bool is_undefined() const { return type_ == Type::undefined; }
  bool is_string() const { return type_ == Type::string; }
  bool is_sequence() const { return type_ == Type::list || type_ == Type::tuple; }
  bool is_mapping() const { return type_ == Type::dict; }
  bool is_integral() const { return type_ == Type::integer || type_ == Type::boolean; }
  bool is_number() const { return is_integral() || type_ == Type::real; }

  int64_t as_integer() const { return integer_; }  // of an integer or a boolean
  double as_real() const {                         // of any number
    return type_ == Type::real ? real_ : static_cast<double>(integer_);
  }
  const Str& as_str() const { return *string_; }
  std::string_view bytes() const { return string_->bytes(); }
  // Why the value is undefined; null where nobody said.
  const Str* undefined_message() const { return string_; }
  List& as_list() const { return *list_; }
  Dict& as_dict() const { return *dict_; }
  Loop& as_loop() const { return *loop_; }
  const Callable& as_callable() const { return *callable_; }
  // The same object, as Python's `is` has it.
  bool same(const Value& other) const { return type_ == other.type_ && integer_ == other.integer_; }

 private:
  explicit Value(Type type) : type_(type), integer_(0) {}

  Type type_;
  union {
    int64_t integer_;
    double real_;
    const Str* string_;
    List* list_;
    Dict* dict_;
    Loop* loop_;
    const Callable* callable_;
  };
};

struct List {
  std::vector<Value> items;
};

struct Dict {
  std::vector<std::pair<Value, Value>> entries;
  std::unordered_map<std::string, size_t> index;  // from the key's identity to its entry
};

// The `loop` variable of a running for statement.
struct Loop {
  const List* items = nullptr;
  int64_t index0 = 0;
  List* last_changed = nullptr;  // the arguments of the last loop.changed()
};

}  // namespace pagoda::jinja
