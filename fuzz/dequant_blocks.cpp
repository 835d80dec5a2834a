// Any bytes are blocks of every type: dequantise_row reads only them (the input is an exact heap
// copy, so that the sanitizer sees one byte more) and gives the same floats at any alignment.
#include <cstring>
#include <span>
#include <vector>

#include "base/dequantise.h"
#include "fuzz.h"

using namespace pagoda;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const DTypeInfo& type = kDTypes[data[0] % std::size(kDTypes)];
  const size_t num_blocks = (size - 1) / type.block_bytes, bytes = num_blocks * type.block_bytes;
  const std::vector<uint8_t> exact(data + 1, data + 1 + bytes);
  std::vector<uint8_t> shifted(bytes + 1);
  if (bytes > 0) std::memcpy(shifted.data() + 1, exact.data(), bytes);
  std::vector<float> a(num_blocks * type.block_elements), b(a.size());
  dequantise_row(type.dtype, reinterpret_cast<const std::byte*>(exact.data()), a);
  dequantise_row(type.dtype, reinterpret_cast<const std::byte*>(shifted.data() + 1), b);
  FUZZ_CHECK(a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
  return 0;
}
