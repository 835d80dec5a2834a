#include "formats/gguf_metadata.h"

#include <utility>
#include <vector>

#include "formats/gguf_types.h"

namespace pagoda {
namespace {

using Value = Metadata::Value;

// Elements of all arrays of a file: bounds the memory that one-byte elements, which become eight
// bytes here, can take. Sixty times the largest vocabularies.
constexpr uint64_t kMaxElements = uint64_t{1} << 24;

class MetadataParser {
 public:
  explicit MetadataParser(GgufCursor& cursor) : cursor_(cursor) {}

  void parse_pair(uint64_t index, GgufMetadata& out) {
    const std::string number = fmt::format("{}", index);
    cursor_.enter("metadata pair number", number);
    const std::string_view key = cursor_.take_string();
    if (key.empty() || key.size() > kGgufMaxKeyBytes)
      throw Error("gguf.bad_key",
                  "{}: expected a key of 1 to {} bytes, found {} bytes",
                  cursor_.where(),
                  kGgufMaxKeyBytes,
                  key.size());
    cursor_.enter("metadata", key);
    const GgufValueType type = take_type();
    Value value = type == GgufValueType::array ? parse_array() : parse_scalar(type);
    if (key == "general.alignment") {
      const auto* integer = std::get_if<int64_t>(&value);
      out.alignment = {.present = true,
                       .is_u32 = type == GgufValueType::u32,
                       .value = integer == nullptr ? 0 : static_cast<uint64_t>(*integer)};
    }
    if (!out.metadata.insert(std::string(key), std::move(value)))
      throw Error("gguf.duplicate_key", "{}: expected the key once, found twice", cursor_.where());
  }

 private:
  GgufValueType take_type() {
    const auto type = cursor_.take<uint32_t>();
    if (type >= kNumGgufValueTypes)
      throw Error("gguf.bad_value_type",
                  "{}: expected a value type from 0 to {}, found {}",
                  cursor_.where(),
                  kNumGgufValueTypes - 1,
                  type);
    return static_cast<GgufValueType>(type);
  }

  template <typename T>
  Value integer() {
    const T value = cursor_.take<T>();
    if (!std::in_range<int64_t>(value)) return static_cast<double>(value);
    return static_cast<int64_t>(value);
  }

  bool boolean() {
    const auto value = cursor_.take<uint8_t>();
    if (value > 1)
      throw Error(
          "gguf.bad_value", "{}: expected a boolean, 0 or 1, found {}", cursor_.where(), value);
    return value == 1;
  }

  Value parse_scalar(GgufValueType type) {
    switch (type) {
      case GgufValueType::u8:
        return integer<uint8_t>();
      case GgufValueType::i8:
        return integer<int8_t>();
      case GgufValueType::u16:
        return integer<uint16_t>();
      case GgufValueType::i16:
        return integer<int16_t>();
      case GgufValueType::u32:
        return integer<uint32_t>();
      case GgufValueType::i32:
        return integer<int32_t>();
      case GgufValueType::u64:
        return integer<uint64_t>();
      case GgufValueType::i64:
        return integer<int64_t>();
      case GgufValueType::f32:
        return static_cast<double>(cursor_.take<float>());
      case GgufValueType::f64:
        return cursor_.take<double>();
      case GgufValueType::boolean:
        return boolean();
      case GgufValueType::string:
        return cursor_.take_string();
      case GgufValueType::array:
        break;
    }
    PG_CHECK(false, "value type {}", static_cast<uint32_t>(type));
  }

  // Checked against the bytes that remain before anything is reserved.
  uint64_t take_count(uint64_t item_bytes) {
    const auto count = cursor_.take<uint64_t>();
    cursor_.require(count, item_bytes);
    num_elements_ += count;
    if (num_elements_ > kMaxElements)
      throw Error("gguf.count_too_large",
                  "{}: expected at most {} array elements in a file's metadata, found {} or more",
                  cursor_.where(),
                  kMaxElements,
                  num_elements_);
    return count;
  }

  template <typename T, typename As>
  Value numbers() {
    const uint64_t count = take_count(sizeof(T));
    const std::byte* in = cursor_.take_bytes(count * sizeof(T));
    const auto item = [in](uint64_t i) {
      T value;
      std::memcpy(&value, in + i * sizeof(T), sizeof(T));
      return value;
    };
    std::vector<As> out(count);
    for (uint64_t i = 0; i < count; i++) {
      if constexpr (std::is_same_v<T, uint64_t> && std::is_same_v<As, int64_t>)
        if (!std::in_range<int64_t>(item(i))) return reals_of(in, count);
      out[i] = static_cast<As>(item(i));  // NOLINT(bugprone-signed-char-misuse): i8 is signed
    }
    return out;
  }

  // An array of u64 with elements that int64_t cannot hold.
  static Value reals_of(const std::byte* in, uint64_t count) {
    std::vector<double> out(count);
    for (uint64_t i = 0; i < count; i++) {
      uint64_t value;
      std::memcpy(&value, in + i * sizeof(value), sizeof(value));
      out[i] = static_cast<double>(value);
    }
    return out;
  }

  Value parse_array() {
    const GgufValueType type = take_type();
    switch (type) {
      case GgufValueType::u8:
        return numbers<uint8_t, int64_t>();
      case GgufValueType::i8:
        return numbers<int8_t, int64_t>();
      case GgufValueType::u16:
        return numbers<uint16_t, int64_t>();
      case GgufValueType::i16:
        return numbers<int16_t, int64_t>();
      case GgufValueType::u32:
        return numbers<uint32_t, int64_t>();
      case GgufValueType::i32:
        return numbers<int32_t, int64_t>();
      case GgufValueType::u64:
        return numbers<uint64_t, int64_t>();
      case GgufValueType::i64:
        return numbers<int64_t, int64_t>();
      case GgufValueType::f32:
        return numbers<float, double>();
      case GgufValueType::f64:
        return numbers<double, double>();
      case GgufValueType::boolean: {
        std::vector<bool> out(take_count(1));
        for (size_t i = 0; i < out.size(); i++) out[i] = boolean();
        return out;
      }
      case GgufValueType::string: {
        std::vector<std::string_view> out(take_count(sizeof(uint64_t)));
        for (std::string_view& s : out) s = cursor_.take_string();
        return out;
      }
      case GgufValueType::array:
        break;
    }
    throw Error("gguf.nested_array",
                "{}: expected an array of scalars or strings, found an array of arrays",
                cursor_.where());
  }

  GgufCursor& cursor_;
  uint64_t num_elements_ = 0;
};

}  // namespace

GgufMetadata parse_gguf_metadata(GgufCursor& cursor, uint64_t count) {
  GgufMetadata out;
  MetadataParser parser(cursor);
  for (uint64_t i = 0; i < count; i++) parser.parse_pair(i, out);
  return out;
}

}  // namespace pagoda
