#include "engine/model_source.h"

#include <utility>

#include "backend/cpu/cpu_backend.h"
#include "base/error.h"
#include "base/threads.h"
#include "text/tokenizer.h"

namespace pagoda {

ModelSizes ModelSource::sizes(const Backend& backend) const {
  if (checkpoint == nullptr)
    return {.weights_bytes = weights_bytes(description.config, kShapeDType, backend),
            .vocabulary_bytes = 0};
  return {
      .weights_bytes = weights_bytes(description.config, description.names, *checkpoint, backend),
      .vocabulary_bytes = Tokenizer::vocabulary_bytes(checkpoint->metadata())};
}

ModelSource open_model(const std::filesystem::path& path) {
  ModelSource source;
  source.checkpoint = open_checkpoint(path);
  source.description = describe_model(*source.checkpoint);
  if (source.checkpoint->tensors().empty()) source.checkpoint.reset();  // a config alone is a shape
  return source;
}

ModelSource model_of_shape(ModelConfig config) {
  ModelSource source;
  source.description.config = std::move(config);
  return source;
}

std::unique_ptr<Backend> make_backend(const EngineSettings& settings) {
  if (settings.device.starts_with("cuda"))
    throw Error("device.unavailable",
                "--device {}: this version runs whole models on CPUs only; use --device cpu",
                settings.device);
  const int threads = settings.threads > 0 ? settings.threads : default_num_threads();
  return cpu::make_cpu_backend({.num_threads = threads, .isa = cpu::chosen_isa()});
}

}  // namespace pagoda
