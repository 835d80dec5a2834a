#include "model/families.h"

#include <string>

#include "base/error.h"

namespace pagoda {
namespace {

constexpr Family kFamilies[] = {
    {"llama", CheckpointFormat::gguf, describe_llama_gguf},
    {"llama", CheckpointFormat::safetensors, describe_llama_folder},
    {"gemma3", CheckpointFormat::gguf, describe_gemma3_gguf},
};

std::string known_families(CheckpointFormat format) {
  std::string names;
  for (const Family& family : kFamilies) {
    if (family.format != format) continue;
    if (!names.empty()) names += ", ";
    names += family.architecture;
  }
  return names;
}

}  // namespace

ModelDescription describe_model(const Checkpoint& checkpoint) {
  const bool is_gguf = checkpoint.format() == CheckpointFormat::gguf;
  const std::string_view key = is_gguf ? "general.architecture" : "config.model_type";
  const std::string_view architecture = checkpoint.metadata().string(key);
  for (const Family& family : kFamilies) {
    if (family.format != checkpoint.format() || family.architecture != architecture) continue;
    ModelDescription description = family.describe(checkpoint);
    description.config.validate();
    return description;
  }
  throw Error("model.unsupported_family",
              "{} is \"{}\"; supported here: {}",
              key,
              architecture,
              known_families(checkpoint.format()));
}

}  // namespace pagoda
