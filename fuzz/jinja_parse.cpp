// Any bytes as a template parse, or are refused with a kind of their own; memory stays bounded.
#include "base/error.h"
#include "fuzz.h"
#include "text/jinja_parser.h"
#include "text/jinja_runtime.h"

using namespace pagoda;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view source(reinterpret_cast<const char*>(data), size);
  const AllocationPeak peak;
  try {
    jinja::parse(source, jinja::Limits{}.parse_depth);
  } catch (const Error& e) {
    FUZZ_CHECK(e.kind() == "template.syntax" || e.kind() == "template.limit");
  }
  FUZZ_CHECK(peak.bytes() < static_cast<int64_t>(1 << 20) + 4096 * static_cast<int64_t>(size));
  return 0;
}
