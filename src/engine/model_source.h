// ModelSource: a model that is known but not loaded: an opened checkpoint or a shape without a
// file, its config, and what it will take. Where every command that names a MODEL begins.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "engine/memory_plan.h"
#include "formats/checkpoint.h"
#include "model/families.h"

namespace pagoda {

struct ModelSource {
  std::unique_ptr<Checkpoint> checkpoint;  // null: a shape
  ModelDescription description;

  // Of the packed weights and the vocabulary's tables. A shape counts bf16 weights and no
  // vocabulary.
  ModelSizes sizes(const Backend& backend) const;
};

constexpr DType kShapeDType = DType::bf16;  // of a shape's weights

// Throws Error as open_checkpoint and describe_model do. A bare config.json gives a shape.
ModelSource open_model(const std::filesystem::path& path);
ModelSource model_of_shape(ModelConfig config);

// What a GPU computes in: bf16, but f16 where the KV cache shall be f16, since its kernels want
// queries and a 16-bit cache alike. (bf16's range is f32's; f16 ends at 65504.)
DType gpu_activations(const EngineSettings& settings);

// The device that the settings name; "auto" is the CPU. Throws Error{"device.unavailable"}.
std::unique_ptr<Backend> make_backend(const EngineSettings& settings);
// Names of the GPUs that "cuda:N" can mean; none in a build without CUDA.
std::vector<std::string> cuda_devices();

}  // namespace pagoda
