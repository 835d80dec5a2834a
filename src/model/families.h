// The registry of model families: which there are, and how each reads a checkpoint. A family is one
// file in families/ that maps metadata to ModelConfig and says how tensors are named; nothing else
// knows families.
#pragma once

#include <string_view>

#include "formats/checkpoint.h"
#include "model/config.h"
#include "model/weights.h"

namespace pagoda {

struct ModelDescription {
  ModelConfig config;
  TensorNames names;
};

struct Family {
  std::string_view
      architecture;  // "general.architecture" of a GGUF file, or "model_type" of a config.json
  CheckpointFormat format;
  ModelDescription (*describe)(const Checkpoint& checkpoint);
};

// The config, validated, and the names of the checkpoint's family. Throws
// Error{"model.unsupported_family"} with the list of those that are known, "model.bad_config", or
// what reading the metadata throws.
ModelDescription describe_model(const Checkpoint& checkpoint);

// families/*.cpp, one function a file format.
ModelDescription describe_llama_gguf(const Checkpoint& checkpoint);
ModelDescription describe_llama_folder(const Checkpoint& checkpoint);
ModelDescription describe_gemma3_gguf(const Checkpoint& checkpoint);

}  // namespace pagoda
