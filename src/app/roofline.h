// The least time that a machine could need for a step of a model: the bytes that must be read and
// the operations that must be done, against what the machine was measured to do.
//
// Counted are weights as packed (once a step, whatever the batch), KV as stored at the depth, the
// products with the matrices (int8 for quantised weights) and those of attention. Activations,
// which stay in caches, are not.
//   const StepCost cost(deployment.model(), deployment.plan().kv_layout);
//   limit_of(cost.decode(8, 4096), limits).seconds
#pragma once

#include <cstdint>
#include <vector>

#include "backend/cpu/machine_limits.h"
#include "kv/layout.h"
#include "model/model.h"

namespace pagoda {

struct StepWork {
  double bytes = 0;
  double int8_ops = 0;
  double bf16_ops = 0;
  double f32_ops = 0;
  StepWork& operator+=(const StepWork& other);
};

class StepCost {
 public:
  // Copies what it needs.
  StepCost(const Model& model, const KvLayout& kv);

  // One step of a token for each of `batch` sequences that hold `depth` tokens.
  StepWork decode(int32_t batch, int32_t depth) const;
  // `tokens` after `depth` others, in steps of up to `chunk`; logits for the last one.
  StepWork prefill(int32_t tokens, int32_t depth, int32_t chunk) const;

 private:
  struct Group {
    int32_t num_layers, window;
  };
  void add_weights(int64_t rows, int64_t logit_rows, StepWork& work) const;
  // Queries at [begin, end) of one sequence, each over the keys that it sees.
  void add_attention(int64_t begin, int64_t end, StepWork& work) const;

  StepWork layers_, head_;  // of one row; bytes: of the weights
  double embedding_row_bytes_ = 0;
  std::vector<Group> groups_;
  double pair_ops_ = 0;     // of one query and key in one layer, all heads
  double token_bytes_ = 0;  // of KV in one layer
  bool is_kv_dotted_as_bf16_ = false;
};

struct StepLimit {
  double seconds = 0;
  bool is_memory_bound = false;
};
StepLimit limit_of(const StepWork& work, const cpu::MachineLimits& machine);

}  // namespace pagoda
