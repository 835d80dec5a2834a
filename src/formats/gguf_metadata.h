// The metadata section of a GGUF file. Values of every type of the format are read, arrays of
// scalars and strings too; an array of arrays is refused ("gguf.nested_array").
#pragma once

#include <cstdint>

#include "formats/gguf_cursor.h"
#include "formats/metadata.h"

namespace pagoda {

// general.alignment as stored: its check comes after the tensors' (rule R2) and needs the type.
struct GgufAlignment {
  bool present = false;
  bool is_u32 = false;
  uint64_t value = 0;
};

struct GgufMetadata {
  Metadata metadata;
  GgufAlignment alignment;
};

// Reads `count` pairs. Throws "gguf.bad_key", "gguf.duplicate_key", "gguf.bad_value_type",
// "gguf.bad_value", "gguf.nested_array", "gguf.count_too_large", "gguf.truncated".
GgufMetadata parse_gguf_metadata(GgufCursor& cursor, uint64_t count);

}  // namespace pagoda
