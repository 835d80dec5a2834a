// The list of a layer's weights: what loading walks, what the plan sums, and what dummy weights
// fill. Private to src/model.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "model/weights.h"

namespace pagoda {

// Where a matrix of a layer goes, how it is named, and its shape.
struct MatrixSlot {
  Weight LayerWeights::*member;
  std::string TensorNames::*name;
  int64_t rows, cols;
};
std::vector<MatrixSlot> matrix_slots(const ModelConfig& config);

// A vector of a layer: one tensor, or several laid end to end.
struct VectorSlot {
  enum class Need : uint8_t { required, optional };
  VectorWeight LayerWeights::*member;
  std::vector<std::pair<std::string TensorNames::*, int64_t>> parts;
  Need need;

  int64_t num_bytes() const {
    int64_t bytes = 0;
    for (const auto& [name, size] : parts) bytes += size * 4;
    return bytes;
  }
};
std::vector<VectorSlot> vector_slots(const ModelConfig& config);

}  // namespace pagoda
