#include "engine/model_source.h"

#include <charconv>
#include <utility>

#include "backend/cpu/cpu_backend.h"
#if PAGODA_HAS_CUDA
#include "backend/cuda/cuda_backend.h"
#endif
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

DType gpu_activations(const EngineSettings& settings) {
  return settings.kv_cache_dtype == "f16" ? DType::f16 : DType::bf16;
}

#if PAGODA_HAS_CUDA
std::vector<std::string> cuda_devices() {
  std::vector<std::string> names;
  for (int32_t i = 0; i < cuda::num_devices(); i++) names.push_back(cuda::device_name(i));
  return names;
}

namespace {
std::unique_ptr<Backend> make_gpu_backend(const EngineSettings& settings) {
  const std::string& device = settings.device;
  const size_t colon = device.find(':');
  int32_t index = 0;
  if (colon != std::string::npos) {
    const char* end = device.data() + device.size();
    const auto [at, error] = std::from_chars(device.data() + colon + 1, end, index);
    if (error != std::errc() || at != end || index >= cuda::num_devices())
      throw Error("device.unavailable",
                  "--device {}: this machine has {} GPU(s)",
                  device,
                  cuda::num_devices());
  }
  if (cuda::num_devices() == 0)
    throw Error(
        "device.unavailable", "--device {}: no GPU or no driver here; use --device cpu", device);
  return cuda::make_cuda_backend({.device = index, .activations = gpu_activations(settings)});
}
}  // namespace
#else
std::vector<std::string> cuda_devices() {
  return {};
}

namespace {
std::unique_ptr<Backend> make_gpu_backend(const EngineSettings& settings) {
  throw Error("device.unavailable",
              "--device {}: this build has no CUDA backend; use --device cpu",
              settings.device);
}
}  // namespace
#endif

std::unique_ptr<Backend> make_backend(const EngineSettings& settings) {
  if (settings.device.starts_with("cuda")) return make_gpu_backend(settings);
  const int threads = settings.threads > 0 ? settings.threads : default_num_threads();
  return cpu::make_cpu_backend({.num_threads = threads, .isa = cpu::chosen_isa()});
}

}  // namespace pagoda
