// Metadata: typed access to a checkpoint's key-value pairs. Reading a value names the type that is
// wanted; another type or a missing key is an Error that names the key ("model.wrong_type",
// "model.missing_key"). Integers of every width are int64_t (one above 2^63 - 1 is a real), floats
// of both widths double. An empty array reads as an array of any type. Strings and string arrays
// are views into the mapped file or into memory that the Checkpoint owns.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace pagoda {

class Metadata {
 public:
  using Value = std::variant<int64_t,
                             double,
                             bool,
                             std::string_view,
                             std::vector<int64_t>,
                             std::vector<double>,
                             std::vector<bool>,
                             std::vector<std::string_view>>;

  bool has(std::string_view key) const { return values_.contains(key); }
  int64_t integer(std::string_view key) const;
  double real(std::string_view key) const;  // an integer reads as a real too
  bool boolean(std::string_view key) const;
  std::string_view string(std::string_view key) const;
  std::span<const int64_t> integers(std::string_view key) const;
  std::span<const double> reals(std::string_view key) const;  // up to 4096 integers read so too
  std::span<const std::string_view> strings(std::string_view key) const;
  // The value, or `otherwise` where the key is missing; a wrong type is still an Error.
  int64_t integer_or(std::string_view key, int64_t otherwise) const;
  double real_or(std::string_view key, double otherwise) const;
  bool boolean_or(std::string_view key, bool otherwise) const;
  std::string_view string_or(std::string_view key, std::string_view otherwise) const;

  // In the order of the keys; for inspection.
  const std::map<std::string, Value, std::less<>>& all() const { return values_; }
  // Written by the parsers only. False when the key was there already.
  bool insert(std::string key, Value value);

 private:
  // JSON writes the reals 1.0, 2.0 as 1, 2: short arrays of integers are kept as reals too.
  static constexpr size_t kMaxIntegersAsReals = 4096;
  std::map<std::string, Value, std::less<>> values_;
  std::map<std::string, std::vector<double>, std::less<>> integers_as_reals_;
};

}  // namespace pagoda
