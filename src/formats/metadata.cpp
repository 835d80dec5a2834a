#include "formats/metadata.h"

#include <utility>

#include "base/error.h"

namespace pagoda {
namespace {

using Value = Metadata::Value;

// In the order of Value's alternatives.
constexpr std::string_view kTypeNames[] = {"an integer",
                                           "a real number",
                                           "a boolean",
                                           "a string",
                                           "an array of integers",
                                           "an array of real numbers",
                                           "an array of booleans",
                                           "an array of strings"};

[[noreturn]] void wrong_type(std::string_view key, std::string_view wanted, const Value& found) {
  throw Error("model.wrong_type",
              "metadata {}: expected {}, found {}",
              key,
              wanted,
              kTypeNames[found.index()]);
}

const Value& value_of(const Metadata& metadata, std::string_view key) {
  const auto it = metadata.all().find(key);
  if (it == metadata.all().end())
    throw Error("model.missing_key", "metadata {}: expected in the model, not found", key);
  return it->second;
}

template <typename T>
const T& get(const Metadata& metadata, std::string_view key) {
  const Value& value = value_of(metadata, key);
  if (const T* found = std::get_if<T>(&value)) return *found;
  wrong_type(key, kTypeNames[Value(std::in_place_type<T>).index()], value);
}

bool is_empty_array(const Value& value) {
  return std::visit(
      [](const auto& v) {
        if constexpr (requires { v.get_allocator(); }) return v.empty();
        return false;
      },
      value);
}

// An empty array has no element type that could be wrong.
template <typename T>
std::span<const T> get_array(const Metadata& metadata, std::string_view key) {
  if (is_empty_array(value_of(metadata, key))) return {};
  return get<std::vector<T>>(metadata, key);
}

}  // namespace

int64_t Metadata::integer(std::string_view key) const {
  return get<int64_t>(*this, key);
}

double Metadata::real(std::string_view key) const {
  const Value& value = value_of(*this, key);
  if (const auto* integer = std::get_if<int64_t>(&value)) return static_cast<double>(*integer);
  return get<double>(*this, key);
}

bool Metadata::boolean(std::string_view key) const {
  return get<bool>(*this, key);
}

std::string_view Metadata::string(std::string_view key) const {
  return get<std::string_view>(*this, key);
}

std::span<const int64_t> Metadata::integers(std::string_view key) const {
  return get_array<int64_t>(*this, key);
}

std::span<const double> Metadata::reals(std::string_view key) const {
  const auto it = integers_as_reals_.find(key);
  if (it != integers_as_reals_.end()) return it->second;
  return get_array<double>(*this, key);
}

std::span<const std::string_view> Metadata::strings(std::string_view key) const {
  return get_array<std::string_view>(*this, key);
}

int64_t Metadata::integer_or(std::string_view key, int64_t otherwise) const {
  return has(key) ? integer(key) : otherwise;
}
double Metadata::real_or(std::string_view key, double otherwise) const {
  return has(key) ? real(key) : otherwise;
}
bool Metadata::boolean_or(std::string_view key, bool otherwise) const {
  return has(key) ? boolean(key) : otherwise;
}
std::string_view Metadata::string_or(std::string_view key, std::string_view otherwise) const {
  return has(key) ? string(key) : otherwise;
}

bool Metadata::insert(std::string key, Value value) {
  if (has(key)) return false;
  const auto* integers = std::get_if<std::vector<int64_t>>(&value);
  if (integers != nullptr && !integers->empty() && integers->size() <= kMaxIntegersAsReals)
    integers_as_reals_.emplace(key, std::vector<double>(integers->begin(), integers->end()));
  values_.emplace(std::move(key), std::move(value));
  return true;
}

}  // namespace pagoda
