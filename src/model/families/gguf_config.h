// What the GGUF files of all families say in the same way: sizes, heads, norms, rotary embedding,
// under the architecture's prefix.
#pragma once

#include <string>
#include <string_view>

#include "formats/checkpoint.h"
#include "model/config.h"

namespace pagoda {

// "llama" and "block_count" give "llama.block_count".
std::string gguf_key(std::string_view architecture, std::string_view suffix);

// A config with the common fields filled, every layer seeing all keys with ropes[0].
ModelConfig common_gguf_config(const Checkpoint& checkpoint, std::string_view architecture);

// An integer of the metadata that fits int32_t and is not negative. Throws
// Error{"model.bad_config"} naming the key.
int32_t config_int(const Metadata& metadata, std::string_view key);

}  // namespace pagoda
