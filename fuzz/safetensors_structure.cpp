// A well-formed header with numbers that may lie, made from the input: parse_safetensors accepts it
// exactly when a plain reading of the format's rules does. Finds what random edits of JSON hardly
// reach: overlaps, holes, sizes that disagree.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "checkpoint_properties.h"
#include "formats/safetensors.h"

using namespace pagoda;

namespace {

struct Tensor {
  int64_t dtype_bytes, dim, begin, end;
};

// By how much a number is wrong: mostly not at all.
int64_t lie(uint8_t byte) {
  return byte < 240 ? 0 : byte - 248;
}

// Every data byte belongs to exactly one tensor, and every tensor has its shape's size.
bool is_good(const std::vector<Tensor>& tensors, int64_t data_bytes) {
  std::vector<int> owners(data_bytes);
  for (const Tensor& t : tensors) {
    if (t.dim == 0 || t.end - t.begin != t.dim * t.dtype_bytes || t.end > data_bytes) return false;
    for (int64_t i = t.begin; i < t.end; i++) owners[i]++;
  }
  return std::ranges::all_of(owners, [](int n) { return n == 1; });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  std::vector<Tensor> tensors;
  std::string header = "{";
  int64_t end = 0;
  for (size_t i = 1; i + 3 < size && tensors.size() < 16; i += 4) {
    static constexpr const char* kNames[] = {"U8", "BF16", "F32"};
    const int type = data[i] % 3;
    Tensor t{1 << type, data[i + 1] % 16, end + lie(data[i + 2]), 0};
    t.begin = std::max<int64_t>(0, t.begin);
    t.end = std::max(t.begin, t.begin + t.dim * t.dtype_bytes + lie(data[i + 3]));
    end = t.end;
    header += fmt::format(R"({}"t{}":{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                          tensors.empty() ? "" : ",",
                          tensors.size(),
                          kNames[type],
                          t.dim,
                          t.begin,
                          t.end);
    tensors.push_back(t);
  }
  header += "}";
  const uint64_t length = header.size();
  const int64_t data_bytes = std::max<int64_t>(0, end + lie(data[0]));
  std::vector<std::byte> file(sizeof(length) + length + data_bytes);
  std::memcpy(file.data(), &length, sizeof(length));
  std::memcpy(file.data() + sizeof(length), header.data(), length);
  bool accepted = true;
  try {
    check_tensors(file, parse_safetensors(file, "fuzz"), parse_safetensors(file, "fuzz"));
  } catch (const Error& e) {
    FUZZ_CHECK(e.kind().starts_with("st."));
    accepted = false;
  }
  FUZZ_CHECK(accepted == is_good(tensors, data_bytes));
  return 0;
}
