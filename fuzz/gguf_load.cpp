// parse_gguf refuses or accepts any bytes; what it accepts lies inside them and reads the same
// twice; neither takes more memory than four times the input and 8 MiB.
#include "base/dequantise.h"
#include "checkpoint_properties.h"
#include "formats/gguf.h"

using namespace pagoda;

namespace {

void check(std::span<const std::byte> bytes) {
  try {
    const GgufFile file = parse_gguf(bytes, "fuzz.gguf");
    const GgufFile again = parse_gguf(bytes, "fuzz.gguf");
    check_tensors(bytes, file.tensors, again.tensors);
    check_metadata(bytes, file.metadata, again.metadata);
    for (const CheckpointTensor& tensor : file.tensors) {
      std::vector<float> row(tensor.view.cols());
      dequantise_row(tensor.view.dtype(), tensor.view.data(), row);
    }
  } catch (const Error& e) {
    FUZZ_CHECK(e.kind().starts_with("gguf.") && !e.message().empty());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const AllocationPeak peak;
  check(std::as_bytes(std::span(data, size)));
  FUZZ_CHECK(peak.bytes() <= 4 * static_cast<int64_t>(size) + (8 << 20));
  return 0;
}
