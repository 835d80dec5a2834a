#include "formats/safetensors_writer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "formats/file_output.h"

namespace pagoda {

void SafetensorsWriter::add(std::string_view name,
                            DType dtype,
                            const std::vector<int64_t>& shape,
                            std::span<const std::byte> data) {
  int64_t elements = 1;
  for (int64_t n : shape) elements *= n;
  PG_CHECK(!is_quantised(dtype) && bytes_of(dtype, elements) == static_cast<int64_t>(data.size()),
           "{}: {} bytes for {} elements",
           name,
           data.size(),
           elements);
  std::string type(pagoda::name(dtype));
  std::ranges::transform(type, type.begin(), [](unsigned char c) { return std::toupper(c); });
  const size_t begin = data_.size();
  data_.resize(begin + data.size());
  if (!data.empty()) std::memcpy(data_.data() + begin, data.data(), data.size());
  entries_.push_back(fmt::format(R"({}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                                 nlohmann::json(std::string(name)).dump(),
                                 type,
                                 fmt::join(shape, ","),
                                 begin,
                                 data_.size()));
}

std::vector<std::byte> SafetensorsWriter::bytes() const {
  std::string header = fmt::format("{{{}}}", fmt::join(entries_, ","));
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const uint64_t length = header.size();
  std::vector<std::byte> out(sizeof(length) + header.size() + data_.size());
  std::memcpy(out.data(), &length, sizeof(length));
  std::memcpy(out.data() + sizeof(length), header.data(), header.size());
  if (!data_.empty())
    std::memcpy(out.data() + sizeof(length) + header.size(), data_.data(), data_.size());
  return out;
}

void SafetensorsWriter::write(const std::filesystem::path& path) const {
  FileOutput out(path);
  out.write(bytes());
  out.commit();
}

}  // namespace pagoda
