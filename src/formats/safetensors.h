// safetensors: one file of tensors (huggingface/safetensors, README "Format"): u64 length of the
// header, the header (a JSON object: name -> dtype, shape, data_offsets), the tensors' bytes.
//
// parse_safetensors trusts nothing: the header's length against the file, its JSON by an iterative
// reader that keeps no tree, types, shapes, sizes against offsets, then that the tensors fill the
// data section exactly, without holes or overlaps. What it returns looks into `bytes` and stays
// inside it; a tensor's bytes may have any alignment. Every error has a kind "st.*".
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "formats/checkpoint.h"

namespace pagoda {

constexpr int64_t kMaxSafetensorsHeader = 100'000'000;  // as the format's own library

// In the order of their bytes; a scalar (shape []) has shape {1}. `path` is for messages only.
std::vector<CheckpointTensor> parse_safetensors(std::span<const std::byte> bytes,
                                                std::string_view path);

}  // namespace pagoda
