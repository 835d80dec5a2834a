// parse_safetensors refuses or accepts any bytes; what it accepts fills the data section exactly
// and reads the same twice; neither takes more memory than four times the input and 8 MiB.
#include "checkpoint_properties.h"
#include "formats/safetensors.h"

using namespace pagoda;

namespace {

void check(std::span<const std::byte> bytes) {
  try {
    const auto tensors = parse_safetensors(bytes, "fuzz.safetensors");
    const auto again = parse_safetensors(bytes, "fuzz.safetensors");
    check_tensors(bytes, tensors, again);
    uint64_t end = 0;
    std::memcpy(&end, bytes.data(), sizeof(end));
    end += sizeof(end);
    for (const CheckpointTensor& tensor : tensors) {
      FUZZ_CHECK(tensor.view.data() == bytes.data() + end);
      end += static_cast<uint64_t>(tensor.view.num_bytes());
    }
    FUZZ_CHECK(end == bytes.size());
  } catch (const Error& e) {
    FUZZ_CHECK(e.kind().starts_with("st.") && !e.message().empty());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const AllocationPeak peak;
  check(std::as_bytes(std::span(data, size)));
  FUZZ_CHECK(peak.bytes() <= 4 * static_cast<int64_t>(size) + (8 << 20));
  return 0;
}
