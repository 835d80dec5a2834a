#include "model/weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "base/checked.h"
#include "base/dequantise.h"
#include "base/error.h"
#include "model/weight_slots.h"

namespace pagoda {
namespace {

std::string in_layer(const std::string& pattern, int32_t layer) {
  return fmt::format(fmt::runtime(pattern), layer);
}

// Whether the checkpoint has this layer's parts of an optional vector: all or none.
bool is_present(const VectorSlot& slot,
                const TensorNames& names,
                const Checkpoint& checkpoint,
                int32_t layer) {
  if (slot.need == VectorSlot::Need::required) return true;
  const std::string& first = names.*slot.parts[0].first;
  return !first.empty() && checkpoint.find(in_layer(first, layer)) != nullptr;
}

const CheckpointTensor& matrix_in(const Checkpoint& checkpoint,
                                  const std::string& name,
                                  int64_t rows,
                                  int64_t cols) {
  const CheckpointTensor& tensor = checkpoint.tensor(name);
  const ConstTensorView& view = tensor.view;
  if (view.rank() != 2 || view.dim(0) != rows || view.dim(1) != cols)
    throw Error("model.bad_shape",
                "tensor {}: expected [{}, {}] from the config, found [{}, {}]",
                name,
                rows,
                cols,
                view.rows(),
                view.cols());
  return tensor;
}

const CheckpointTensor& vector_in(const Checkpoint& checkpoint,
                                  const std::string& name,
                                  int64_t size) {
  const CheckpointTensor& tensor = checkpoint.tensor(name);
  if (tensor.view.num_elements() != size)
    throw Error("model.bad_shape",
                "tensor {}: expected {} elements from the config, found {}",
                name,
                size,
                tensor.view.num_elements());
  return tensor;
}

// What is packed before the file's pages are dropped: how much of it may be resident at a time.
constexpr int64_t kSliceBytes = int64_t{8} << 20;

class Loader {
 public:
  Loader(const ModelConfig& config,
         const TensorNames& names,
         const Checkpoint& checkpoint,
         Backend& backend,
         const std::function<void(int64_t, int64_t)>& progress)
      : config_(config),
        names_(names),
        checkpoint_(checkpoint),
        backend_(backend),
        progress_(progress) {
    for (const CheckpointTensor& tensor : checkpoint.tensors()) total_ += tensor.view.num_bytes();
  }

  ModelWeights load() {
    ModelWeights weights;
    weights.embedding = matrix(names_.embedding, config_.vocab_size, config_.hidden_size);
    if (!config_.has_tied_embeddings)
      weights.lm_head = matrix(names_.lm_head, config_.vocab_size, config_.hidden_size);
    weights.final_norm = vector({{names_.final_norm, config_.hidden_size}});
    weights.layers.resize(config_.num_layers);
    for (int32_t i = 0; i < config_.num_layers; i++) {
      for (const MatrixSlot& slot : matrix_slots(config_))
        weights.layers[i].*slot.member =
            matrix(in_layer(names_.*slot.name, i), slot.rows, slot.cols);
      for (const VectorSlot& slot : vector_slots(config_)) {
        if (!is_present(slot, names_, checkpoint_, i)) continue;
        std::vector<std::pair<std::string, int64_t>> parts;
        for (const auto& [name, size] : slot.parts)
          parts.emplace_back(in_layer(names_.*name, i), size);
        weights.layers[i].*slot.member = vector(parts);
      }
    }
    return weights;
  }

 private:
  Weight matrix(const std::string& name, int64_t rows, int64_t cols) {
    const CheckpointTensor& tensor = matrix_in(checkpoint_, name, rows, cols);
    Weight weight = backend_.allocate_weight(tensor.view.dtype(), rows, cols);
    const int64_t row_bytes = tensor.view.row_bytes();
    const int64_t slice = round_up(ceil_div(kSliceBytes, row_bytes), Backend::kPackRows);
    for (int64_t row = 0; row < rows; row += slice) {
      const ConstTensorView some = tensor.view.slice_rows(row, std::min(slice, rows - row));
      backend_.pack_rows(weight, row, some);
      finish(tensor, row * row_bytes, some.num_bytes());
    }
    return weight;
  }

  VectorWeight vector(const std::vector<std::pair<std::string, int64_t>>& parts) {
    std::vector<float> values;
    for (const auto& [name, size] : parts) {
      const CheckpointTensor& tensor = vector_in(checkpoint_, name, size);
      const size_t begin = values.size();
      values.resize(begin + size);
      dequantise_row(tensor.view.dtype(), tensor.view.data(), std::span(values).subspan(begin));
      finish(tensor, 0, tensor.view.num_bytes());
    }
    return upload(values);
  }

  VectorWeight upload(const std::vector<float>& values) {
    VectorWeight vector;
    vector.size = int64_t(values.size());
    vector.data = backend_.allocator().allocate(vector.size * 4, MemoryTag::weights);
    backend_.copy_to_device(
        vector.data.data(), reinterpret_cast<const std::byte*>(values.data()), vector.size * 4);
    return vector;
  }

  // These bytes are packed: the file's pages need not stay.
  void finish(const CheckpointTensor& tensor, int64_t offset, int64_t bytes) {
    checkpoint_.drop_pages(tensor, offset, bytes);
    done_ += bytes;
    if (progress_) progress_(done_, total_);
  }

  const ModelConfig& config_;
  const TensorNames& names_;
  const Checkpoint& checkpoint_;
  Backend& backend_;
  const std::function<void(int64_t, int64_t)>& progress_;
  int64_t done_ = 0, total_ = 0;
};

}  // namespace

int64_t weights_bytes(const ModelConfig& config,
                      const TensorNames& names,
                      const Checkpoint& checkpoint,
                      const Backend& backend) {
  auto packed = [&](const std::string& name, int64_t rows, int64_t cols) {
    return backend.packed_bytes(matrix_in(checkpoint, name, rows, cols).view.dtype(), rows, cols);
  };
  int64_t bytes = packed(names.embedding, config.vocab_size, config.hidden_size);
  if (!config.has_tied_embeddings)
    bytes += packed(names.lm_head, config.vocab_size, config.hidden_size);
  bytes += config.hidden_size * 4;
  for (int32_t i = 0; i < config.num_layers; i++) {
    for (const MatrixSlot& slot : matrix_slots(config))
      bytes += packed(in_layer(names.*slot.name, i), slot.rows, slot.cols);
    for (const VectorSlot& slot : vector_slots(config))
      if (is_present(slot, names, checkpoint, i)) bytes += slot.num_bytes();
  }
  return bytes;
}

ModelWeights load_weights(const ModelConfig& config,
                          const TensorNames& names,
                          const Checkpoint& checkpoint,
                          Backend& backend,
                          const std::function<void(int64_t, int64_t)>& progress) {
  return Loader(config, names, checkpoint, backend, progress).load();
}

}  // namespace pagoda
