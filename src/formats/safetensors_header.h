// The JSON header of a safetensors file, read event by event into descriptions of its tensors.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace pagoda {

struct SafetensorsEntry {
  std::string name;
  std::string dtype;            // as written: "BF16"
  std::vector<uint64_t> shape;  // outermost first; at most 4
  uint64_t begin = 0, end = 0;  // in the data section
};

// In the order of the header. Throws "st.bad_header", "st.bad_shape" (more than 4 dimensions).
std::vector<SafetensorsEntry> parse_safetensors_header(std::string_view json,
                                                       std::string_view path);

}  // namespace pagoda
