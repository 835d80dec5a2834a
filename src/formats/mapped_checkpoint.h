// What both readers hand over: the parts of an opened model, and the one Checkpoint made of them.
// The files and texts in it own every byte that the metadata and the tensors look at.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/mapped_file.h"
#include "formats/checkpoint.h"

namespace pagoda {

struct CheckpointParts {
  CheckpointFormat format = CheckpointFormat::gguf;
  std::vector<std::unique_ptr<MappedFile>> files;
  std::deque<std::string> texts;
  Metadata metadata;
  std::vector<CheckpointTensor> tensors;

  // Keeps `text` and returns a view of it that lasts.
  std::string_view keep(std::string text) { return texts.emplace_back(std::move(text)); }
};

// Throws Error{duplicate_kind} when two tensors have one name.
std::unique_ptr<Checkpoint> make_checkpoint(CheckpointParts parts, std::string_view duplicate_kind);

// A view of rank shape.size() (1 to 4); `shape` is outermost first and fits the type's block.
ConstTensorView make_view(const std::byte* data, DType dtype, std::span<const int64_t> shape);

// Indexes of `tensors` in the order of their names; throws Error{duplicate_kind} naming `where`
// when two have the same name.
std::vector<uint32_t> sort_by_name(std::span<const CheckpointTensor> tensors,
                                   std::string_view duplicate_kind,
                                   std::string_view where);

}  // namespace pagoda
