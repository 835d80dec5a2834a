// What `pagoda inspect` shows of an opened model: the metadata, the config as we understand it, and
// every tensor with dtype, shape and bytes; as text for people or as one JSON document. Long arrays
// and long strings are cut, with their full length. A model of an unknown family is shown too: then
// the config's place has the reason.
#pragma once

#include <cstddef>
#include <string>

#include "formats/checkpoint.h"

namespace pagoda {

struct InspectLimits {
  size_t max_items = 8;               // of an array
  size_t max_bytes = 64;              // of a string, in the text
  size_t max_json_bytes = 64 * 1024;  // of a string, in the JSON
};

std::string inspect_text(const Checkpoint& checkpoint, const InspectLimits& limits = {});

// {"format", "file_bytes", "config": {...} or {"error": {"kind", "message"}}, "metadata": {KEY:
// VALUE}, "tensors": [{"name", "dtype", "shape", "bytes"}], "num_tensors", "num_elements",
// "tensor_bytes"}. A cut array is {"length", "first": [...]}, a cut string {"bytes", "first":
// "..."}. Invalid UTF-8 becomes U+FFFD.
std::string inspect_json(const Checkpoint& checkpoint, const InspectLimits& limits = {});

}  // namespace pagoda
