// Writes a safetensors file; for tests and small tools. Shapes are outermost first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"

namespace pagoda {

class SafetensorsWriter {
 public:
  // Copies `data`: a plain type's elements, row-major.
  void add(std::string_view name,
           DType dtype,
           const std::vector<int64_t>& shape,
           std::span<const std::byte> data);
  void add_f32(std::string_view name,
               const std::vector<int64_t>& shape,
               std::span<const float> values) {
    add(name, DType::f32, shape, std::as_bytes(values));
  }
  std::vector<std::byte> bytes() const;
  void write(const std::filesystem::path& path) const;

 private:
  std::vector<std::string> entries_;  // of the header, as JSON
  std::vector<std::byte> data_;
};

}  // namespace pagoda
