#include "formats/json_limits.h"

#include <nlohmann/json.hpp>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/error.h"
#include "formats/printable.h"

namespace pagoda {
namespace {

using nlohmann::json;

class Checker final : public nlohmann::json_sax<json> {
 public:
  Checker(std::string_view kind, std::string_view where, const JsonLimits& limits)
      : kind_(kind), where_(where), limits_(limits) {}

  bool null() override { return node(); }
  bool boolean(bool) override { return node(); }
  bool number_integer(number_integer_t) override { return node(); }
  bool number_unsigned(number_unsigned_t) override { return node(); }
  bool number_float(number_float_t, const string_t&) override { return node(); }
  bool string(string_t&) override { return node(); }
  bool binary(binary_t&) override { return node(); }
  bool start_array(std::size_t) override { return open(); }
  bool end_array() override { return close(); }
  bool start_object(std::size_t) override {
    open();
    if (limits_.duplicate_keys == DuplicateKeys::refuse) keys_.emplace_back();
    return true;
  }
  bool end_object() override {
    if (limits_.duplicate_keys == DuplicateKeys::refuse) keys_.pop_back();
    return close();
  }
  bool key(string_t& name) override {
    if (limits_.duplicate_keys == DuplicateKeys::refuse && !keys_.back().insert(name).second)
      throw Error(kind_,
                  "{}: expected the key {} once in its object, found twice",
                  where_,
                  printable(name));
    return true;
  }
  bool parse_error(std::size_t position,
                   const std::string&,
                   const nlohmann::detail::exception& e) override {
    throw Error(kind_,
                "{}: expected JSON, found a mistake at byte {}: {}",
                where_,
                position,
                printable(e.what(), 300));
  }

 private:
  bool node() {
    if (++nodes_ > limits_.max_nodes)
      throw Error(kind_, "{}: expected at most {} JSON values", where_, limits_.max_nodes);
    return true;
  }
  bool open() {
    if (++depth_ > limits_.max_depth)
      throw Error(kind_, "{}: expected JSON at most {} levels deep", where_, limits_.max_depth);
    return node();
  }
  bool close() {
    depth_--;
    return true;
  }

  std::string kind_, where_;
  JsonLimits limits_;
  int depth_ = 0;
  int64_t nodes_ = 0;
  std::vector<std::unordered_set<std::string>> keys_;  // of the open objects
};

}  // namespace

void check_json(std::string_view text,
                std::string_view kind,
                std::string_view where,
                const JsonLimits& limits) {
  // The library takes a zero byte for the end of the text.
  if (const size_t zero = text.find('\0'); zero != std::string_view::npos)
    throw Error(std::string(kind), "{}: expected JSON, found a zero byte at {}", where, zero);
  Checker checker(kind, where, limits);
  json::sax_parse(text, &checker);
}

json parse_json(std::string_view text,
                std::string_view kind,
                std::string_view where,
                const JsonLimits& limits) {
  check_json(text, kind, where, limits);
  return json::parse(text);
}

}  // namespace pagoda
