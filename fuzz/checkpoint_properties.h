// Properties of whatever a model parser accepted: every view lies inside the input, shapes and
// sizes agree, and parsing the same bytes again gives the same.
#pragma once

#include <cstring>
#include <span>
#include <string_view>

#include "formats/checkpoint.h"
#include "fuzz.h"

namespace pagoda {

inline void check_inside(std::span<const std::byte> all, const void* data, int64_t size) {
  const auto* begin = static_cast<const std::byte*>(data);
  FUZZ_CHECK(size >= 0);
  if (size == 0) return;
  FUZZ_CHECK(begin >= all.data() && begin + size <= all.data() + all.size());
}

inline void check_tensors(std::span<const std::byte> all,
                          std::span<const CheckpointTensor> tensors,
                          std::span<const CheckpointTensor> again) {
  FUZZ_CHECK(tensors.size() == again.size());
  int64_t sum = 0;
  for (size_t i = 0; i < tensors.size(); i++) {
    const ConstTensorView a = tensors[i].view, b = again[i].view;
    check_inside(all, a.data(), a.num_bytes());
    FUZZ_CHECK(a.rank() >= 1 && a.rank() <= 4 && a.num_elements() >= 1);
    FUZZ_CHECK(a.cols() % info(a.dtype()).block_elements == 0);
    FUZZ_CHECK(tensors[i].name == again[i].name && a.data() == b.data() && a.dtype() == b.dtype());
    FUZZ_CHECK(a.num_elements() == b.num_elements());
    sum += a.num_bytes();
  }
  FUZZ_CHECK(sum <= static_cast<int64_t>(all.size()));  // no byte belongs to two tensors
}

inline bool same(double a, double b) {
  return std::memcmp(&a, &b, sizeof(a)) == 0;
}
inline bool same(const std::vector<double>& a, const std::vector<double>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0);
}
template <typename T>
bool same(const T& a, const T& b) {
  return a == b;
}

inline void check_metadata(std::span<const std::byte> all, const Metadata& a, const Metadata& b) {
  FUZZ_CHECK(a.all().size() == b.all().size());
  for (const auto& [key, value] : a.all()) {
    const auto it = b.all().find(key);
    FUZZ_CHECK(it != b.all().end() && it->second.index() == value.index());
    std::visit(
        [&](const auto& v) {
          FUZZ_CHECK(same(v, std::get<std::decay_t<decltype(v)>>(it->second)));
        },
        value);
    if (const auto* text = std::get_if<std::string_view>(&value))
      check_inside(all, text->data(), static_cast<int64_t>(text->size()));
    if (const auto* texts = std::get_if<std::vector<std::string_view>>(&value))
      for (std::string_view s : *texts) check_inside(all, s.data(), static_cast<int64_t>(s.size()));
  }
}

}  // namespace pagoda
