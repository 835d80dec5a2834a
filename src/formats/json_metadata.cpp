#include "formats/json_metadata.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "formats/printable.h"

namespace pagoda {
namespace {

using nlohmann::json;

bool fits_int64(const json& value) {
  return value.is_number_integer() &&
         (!value.is_number_unsigned() || std::in_range<int64_t>(value.get<uint64_t>()));
}

class Flattener {
 public:
  Flattener(CheckpointParts& parts, std::string_view path) : parts_(parts), path_(path) {}

  void add(const std::string& key, const json& value) {
    if (value.is_object()) {
      for (const auto& [name, item] : value.items()) add(fmt::format("{}.{}", key, name), item);
    } else if (!value.is_null()) {
      if (!parts_.metadata.insert(key, value.is_array() ? array(value) : scalar(value)))
        throw Error(
            "model.bad_config", "{}: expected the key {} once, found twice", path_, printable(key));
    }
  }

 private:
  Metadata::Value scalar(const json& value) {
    if (value.is_boolean()) return value.get<bool>();
    if (value.is_string()) return parts_.keep(value.get<std::string>());
    if (fits_int64(value)) return value.get<int64_t>();
    return value.get<double>();
  }

  Metadata::Value array(const json& value) {
    const auto all = [&](auto is) { return std::all_of(value.begin(), value.end(), is); };
    if (all(fits_int64)) return value.get<std::vector<int64_t>>();
    if (all([](const json& v) { return v.is_number(); })) return value.get<std::vector<double>>();
    if (all([](const json& v) { return v.is_boolean(); })) return value.get<std::vector<bool>>();
    if (all([](const json& v) { return v.is_string(); })) {
      std::vector<std::string_view> out;
      for (const json& v : value) out.push_back(parts_.keep(v.get<std::string>()));
      return out;
    }
    return parts_.keep(value.dump());
  }

  CheckpointParts& parts_;
  std::string_view path_;
};

}  // namespace

void add_json_metadata(CheckpointParts& parts,
                       std::string_view prefix,
                       const json& tree,
                       std::string_view path) {
  if (!tree.is_object()) throw Error("model.bad_config", "{}: expected a JSON object", path);
  Flattener(parts, path).add(std::string(prefix), tree);
}

}  // namespace pagoda
