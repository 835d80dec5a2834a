// GGUF, versions 2 and 3 (little-endian): one file holds metadata, tensor descriptions and data.
//
// parse_gguf trusts nothing (rule R2) and checks in this order: length, magic, version, counts
// against the bytes that remain, metadata, tensor types, shapes, names, alignment, sizes (per
// tensor and in sum), offsets, the end of the file. What it returns looks into `bytes` and stays
// inside it. Every error has a kind "gguf.*" and names the file, the item, what was expected and
// what found.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "formats/checkpoint.h"

namespace pagoda {

struct GgufFile {
  uint32_t version;
  int64_t alignment;   // of the data section and of each tensor in it
  int64_t data_begin;  // where the data section starts in the file
  Metadata metadata;
  std::vector<CheckpointTensor> tensors;  // in the order of the file
};

// `path` is for messages only.
GgufFile parse_gguf(std::span<const std::byte> bytes, std::string_view path);

// A whole model: the first file of a split one ("NAME-00001-of-00003.gguf") brings the others,
// which lie beside it under its own name. Throws, besides parse_gguf's and MappedFile's kinds,
// "gguf.bad_split" and "gguf.missing_split".
std::unique_ptr<Checkpoint> open_gguf(const std::filesystem::path& path);

}  // namespace pagoda
