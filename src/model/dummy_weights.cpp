#include <algorithm>
#include <cstring>

#include "base/half.h"
#include "base/random.h"
#include "model/weight_slots.h"

namespace pagoda {
namespace {

// Random bytes are valid blocks of any quantised type once their f16 scales are small numbers.
void fill_random(DType dtype, std::span<std::byte> bytes, uint64_t seed) {
  for (size_t i = 0; i < bytes.size(); i += 16) {
    const auto words = philox4x32({uint32_t(i / 16), uint32_t((i / 16) >> 32), 0, 1},
                                  {uint32_t(seed), uint32_t(seed >> 32)});
    std::memcpy(&bytes[i], words.data(), std::min<size_t>(16, bytes.size() - i));
  }
  const DTypeInfo& type = info(dtype);
  const uint16_t scale = f32_to_f16(dtype == DType::q6_k         ? 0.0003f
                                    : type.block_elements == 256 ? 0.0005f
                                                                 : 0.004f);
  const uint16_t minimum =
      f32_to_f16(dtype == DType::q4_k || dtype == DType::q5_k ? -0.002f : -0.03f);
  for (size_t block = 0; is_quantised(dtype) && block < bytes.size(); block += type.block_bytes) {
    std::memcpy(&bytes[block + (dtype == DType::q6_k ? 208 : 0)], &scale, 2);
    const bool has_minimum = dtype == DType::q4_1 || dtype == DType::q5_1 || dtype == DType::q4_k ||
                             dtype == DType::q5_k;
    if (has_minimum) std::memcpy(&bytes[block + 2], &minimum, 2);
  }
}

// Uniform in ±0.08 for plain types: a few layers of any width neither vanish nor explode.
void fill_plain(DType dtype, std::span<std::byte> bytes, uint64_t seed) {
  const int64_t n = int64_t(bytes.size()) / info(dtype).block_bytes;
  for (int64_t i = 0; i < n; i++) {
    const float x = float(uniform_draw(seed, 0, i) - 0.5) * 0.16f;
    if (dtype == DType::f32) {
      std::memcpy(&bytes[i * 4], &x, 4);
    } else {
      const uint16_t half = dtype == DType::f16 ? f32_to_f16(x) : f32_to_bf16(x);
      std::memcpy(&bytes[i * 2], &half, 2);
    }
  }
}

Weight dummy_matrix(DType dtype, int64_t rows, int64_t cols, uint64_t seed, Backend& backend) {
  std::vector<std::byte> bytes(rows * bytes_of(dtype, cols));
  if (is_quantised(dtype)) {
    fill_random(dtype, bytes, seed);
  } else {
    fill_plain(dtype, bytes, seed);
  }
  return backend.pack(ConstTensorView(bytes.data(), dtype, {rows, cols}));
}

VectorWeight dummy_vector(int64_t size, uint64_t seed, Backend& backend) {
  std::vector<float> values(size);
  for (int64_t i = 0; i < size; i++) values[i] = 1.f + float(uniform_draw(seed, 1, i) - 0.5) * 0.2f;
  VectorWeight vector;
  vector.size = size;
  vector.data = backend.allocator().allocate(size * 4, MemoryTag::weights);
  backend.copy_to_device(
      vector.data.data(), reinterpret_cast<const std::byte*>(values.data()), size * 4);
  return vector;
}

}  // namespace

int64_t weights_bytes(const ModelConfig& config, DType dtype, const Backend& backend) {
  const int64_t embedding = backend.packed_bytes(dtype, config.vocab_size, config.hidden_size);
  int64_t layer = 0;
  for (const MatrixSlot& slot : matrix_slots(config))
    layer += backend.packed_bytes(dtype, slot.rows, slot.cols);
  for (const VectorSlot& slot : vector_slots(config))
    if (slot.need == VectorSlot::Need::required) layer += slot.num_bytes();
  return embedding * (config.has_tied_embeddings ? 1 : 2) + config.hidden_size * 4 +
         config.num_layers * layer;
}

ModelWeights dummy_weights(const ModelConfig& config,
                           DType dtype,
                           uint64_t seed,
                           Backend& backend) {
  uint64_t next = seed * 1000003;
  ModelWeights weights;
  weights.embedding = dummy_matrix(dtype, config.vocab_size, config.hidden_size, next++, backend);
  if (!config.has_tied_embeddings)
    weights.lm_head = dummy_matrix(dtype, config.vocab_size, config.hidden_size, next++, backend);
  weights.final_norm = dummy_vector(config.hidden_size, next++, backend);
  weights.layers.resize(config.num_layers);
  for (LayerWeights& layer : weights.layers) {
    for (const MatrixSlot& slot : matrix_slots(config))
      layer.*slot.member = dummy_matrix(dtype, slot.rows, slot.cols, next++, backend);
    for (const VectorSlot& slot : vector_slots(config))
      if (slot.need == VectorSlot::Need::required)
        layer.*slot.member = dummy_vector(slot.parts[0].second, next++, backend);
  }
  return weights;
}

}  // namespace pagoda
