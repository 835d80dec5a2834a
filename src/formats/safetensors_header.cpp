#include "formats/safetensors_header.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "formats/printable.h"

namespace pagoda {
namespace {

constexpr size_t kMaxTensors = 1 << 20;
constexpr size_t kMaxRank = 4;

// Accepts exactly {"NAME": {"dtype": "…", "shape": [n, …], "data_offsets": [n, n]}, …,
// "__metadata__": {"KEY": "VALUE", …}}; any other event is an error.
class HeaderReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit HeaderReader(std::string_view path) : path_(path) {}
  std::vector<SafetensorsEntry> take() { return std::move(entries_); }

  bool null() override { refuse("null"); }
  bool boolean(bool) override { refuse("a boolean"); }
  bool number_integer(number_integer_t) override { refuse("a negative number"); }
  bool number_float(number_float_t, const string_t& text) override { refuse(printable(text)); }
  bool binary(binary_t&) override { refuse("binary"); }
  bool number_unsigned(number_unsigned_t value) override {
    if (level_ == Level::shape) {
      if (entries_.back().shape.size() == kMaxRank)
        throw Error("st.bad_shape",
                    "{}: tensor {}: expected at most {} dimensions, found more",
                    path_,
                    printable(entries_.back().name),
                    kMaxRank);
      entries_.back().shape.push_back(value);
    } else if (level_ == Level::offsets && num_offsets_ < 2) {
      (num_offsets_++ == 0 ? entries_.back().begin : entries_.back().end) = value;
    } else {
      refuse("a number");
    }
    return true;
  }
  bool string(string_t& value) override {
    if (level_ == Level::metadata) return true;
    if (level_ != Level::tensor || field_ != Field::dtype) refuse("a string");
    entries_.back().dtype = value;
    return true;
  }
  bool start_object(std::size_t) override {
    if (level_ == Level::start) {
      level_ = Level::names;
    } else if (level_ == Level::names && name_ == "__metadata__") {
      level_ = Level::metadata;
    } else if (level_ == Level::names) {
      if (name_.empty() || entries_.size() == kMaxTensors) refuse("no name, or too many tensors");
      entries_.push_back({.name = name_, .dtype = "", .shape = {}});
      seen_[0] = seen_[1] = seen_[2] = false;
      level_ = Level::tensor;
    } else {
      refuse("an object");
    }
    return true;
  }
  bool key(string_t& name) override {
    if (level_ == Level::names) name_ = name;
    if (level_ != Level::tensor) return true;
    for (int f = 0; f < 3; f++) {
      if (name != kFieldNames[f]) continue;
      if (seen_[f]) refuse("the field " + name + " twice");
      seen_[f] = true;
      field_ = static_cast<Field>(f);
      return true;
    }
    refuse("the field " + printable(name));
  }
  bool end_object() override {
    if (level_ == Level::tensor && !(seen_[0] && seen_[1] && seen_[2]))
      refuse("a tensor without one of dtype, shape, data_offsets");
    level_ = level_ == Level::names ? Level::start : Level::names;
    return true;
  }
  bool start_array(std::size_t) override {
    if (level_ != Level::tensor || field_ == Field::dtype) refuse("an array");
    level_ = field_ == Field::shape ? Level::shape : Level::offsets;
    num_offsets_ = 0;
    return true;
  }
  bool end_array() override {
    if (level_ == Level::offsets && num_offsets_ != 2) refuse("data_offsets without two numbers");
    level_ = Level::tensor;
    return true;
  }
  bool parse_error(std::size_t position,
                   const std::string&,
                   const nlohmann::detail::exception& e) override {
    throw Error("st.bad_header",
                "{}: expected a JSON header, found a mistake at its byte {}: {}",
                path_,
                position,
                printable(e.what(), 300));
  }

 private:
  enum class Level { start, names, metadata, tensor, shape, offsets };
  enum class Field { dtype, shape, data_offsets };
  static constexpr std::string_view kFieldNames[] = {"dtype", "shape", "data_offsets"};

  [[noreturn]] void refuse(const std::string& found) {
    throw Error("st.bad_header",
                "{}: header entry {}: expected name -> {{dtype, shape, data_offsets}}, found {}",
                path_,
                printable(name_),
                found);
  }

  std::string_view path_;
  Level level_ = Level::start;
  Field field_ = Field::dtype;
  std::string name_;
  bool seen_[3] = {};
  int num_offsets_ = 0;
  std::vector<SafetensorsEntry> entries_;
};

}  // namespace

std::vector<SafetensorsEntry> parse_safetensors_header(std::string_view json,
                                                       std::string_view path) {
  if (!json.starts_with('{'))
    throw Error("st.bad_header",
                "{}: expected a header that starts with {{, found {}",
                path,
                printable(json.substr(0, 8)));
  // The library takes a zero byte for the end of the text.
  if (const size_t zero = json.find('\0'); zero != std::string_view::npos)
    throw Error("st.bad_header", "{}: expected JSON, found a zero byte at {}", path, zero);
  HeaderReader reader(path);
  nlohmann::json::sax_parse(json, &reader);
  return reader.take();
}

}  // namespace pagoda
