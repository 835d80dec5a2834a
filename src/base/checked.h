// Checked<int64_t>: the one integer type for sizes, offsets and counts that come from a file or a
// request (rule R1).
//
// Arithmetic never wraps: an overflow (or a negative operand of align_up) makes the value invalid,
// which sticks through further arithmetic. value(kind, what) takes the number out, or throws
// Error{kind} naming `what`.
//   int64_t bytes = (Checked(rows) * cols * 2 + offset).value("gguf.size_overflow", tensor_name);
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"

namespace pagoda {

class Checked {
 public:
  Checked(int64_t value) : value_(value) {}  // NOLINT: meant to be implicit
  Checked(int value) : value_(value) {}      // NOLINT
  // Values above 2^63-1 are invalid from the start.
  Checked(uint64_t value) {  // NOLINT
    if (value <= static_cast<uint64_t>(INT64_MAX)) value_ = static_cast<int64_t>(value);
  }

  friend Checked operator+(Checked a, Checked b) {
    return a.with(b,
                  [](int64_t x, int64_t y, int64_t* r) { return __builtin_add_overflow(x, y, r); });
  }
  friend Checked operator-(Checked a, Checked b) {
    return a.with(b,
                  [](int64_t x, int64_t y, int64_t* r) { return __builtin_sub_overflow(x, y, r); });
  }
  friend Checked operator*(Checked a, Checked b) {
    return a.with(b,
                  [](int64_t x, int64_t y, int64_t* r) { return __builtin_mul_overflow(x, y, r); });
  }

  // The smallest multiple of `alignment` that is not below the value.
  Checked align_up(int64_t alignment) const {
    if (!value_ || *value_ < 0 || alignment <= 0) return invalid();
    const int64_t rest = *value_ % alignment;
    return rest == 0 ? *this : *this + Checked(alignment - rest);
  }

  bool valid() const { return value_.has_value(); }
  // The number; std::nullopt after an overflow.
  std::optional<int64_t> get() const { return value_; }
  int64_t value(std::string_view kind, std::string_view what) const {
    if (!value_) throw Error(std::string(kind), "{}: a size does not fit in 63 bits", what);
    return *value_;
  }

 private:
  static Checked invalid() {
    Checked c(0);
    c.value_.reset();
    return c;
  }
  template <typename Op>
  Checked with(Checked other, Op op) const {
    int64_t result;
    if (!value_ || !other.value_ || op(*value_, *other.value_, &result)) return invalid();
    return Checked(result);
  }

  std::optional<int64_t> value_;
};

// ceil(a / b) for sizes of our own (a >= 0, b > 0).
constexpr int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}
constexpr int64_t round_up(int64_t a, int64_t b) {
  return ceil_div(a, b) * b;
}

}  // namespace pagoda
