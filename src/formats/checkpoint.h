// Checkpoint: a model on disk as named tensors and metadata, alike for GGUF and for a Hugging Face
// folder. Owns the mapped files; views live as long as it does. It checks everything against the
// real file when it is opened and interprets no names.
//
// Metadata keys: a GGUF file's own ("llama.block_count", "tokenizer.ggml.tokens"). A folder's:
// "config." + the dotted path into config.json ("config.hidden_size",
// "config.rope_scaling.factor"), "generation_config." likewise, "tokenizer_config." likewise,
// "tokenizer.json" the whole text of that file, and for both "tokenizer.chat_template".
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/tensor.h"
#include "formats/metadata.h"

namespace pagoda {

enum class CheckpointFormat : uint8_t { gguf, safetensors };

struct CheckpointTensor {
  std::string name;
  ConstTensorView
      view;  // outermost dimension first (a GGUF file lists them innermost first), row-major
};

class Checkpoint {
 public:
  virtual ~Checkpoint() = default;
  virtual CheckpointFormat format() const = 0;
  virtual const Metadata& metadata() const = 0;
  virtual std::span<const CheckpointTensor> tensors() const = 0;  // in the order of the file
  virtual const CheckpointTensor* find(std::string_view name) const = 0;  // nullptr: no such tensor
  // Throws Error{"model.missing_tensor"} naming it.
  const CheckpointTensor& tensor(std::string_view name) const;
  // These bytes of the tensor have been packed: the system may drop their pages.
  virtual void drop_pages(const CheckpointTensor& tensor, int64_t offset, int64_t bytes) const = 0;
  virtual int64_t file_bytes() const = 0;
};

// `path`: a .gguf file (the first of a split one brings the rest), or a folder with config.json and
// *.safetensors. Throws Error with kinds "model.*", "gguf.*", "st.*" (docs/architecture.md and the
// tables in the tests).
std::unique_ptr<Checkpoint> open_checkpoint(const std::filesystem::path& path);

}  // namespace pagoda
