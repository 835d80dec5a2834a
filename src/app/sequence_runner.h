// SequenceRunner: one sequence through a deployment's model, outside the engine, with the logits of
// any of its rows: what scoring a text needs (perplexity, comparison with other engines). Uses the
// first blocks of the KV storage and the executor's buffers, so that it takes no memory that is not
// planned; do not mix with requests.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/deployment.h"
#include "engine/model_executor.h"

namespace pagoda {

class SequenceRunner {
 public:
  // `max_length` tokens of a sequence, at most the deployment's max_model_len.
  SequenceRunner(Deployment& deployment, int32_t max_length);

  // Forgets the sequence.
  void reset();
  // Computes the next tokens in one step: at most max_step() of them, within max_length.
  void append(std::span<const int32_t> tokens);
  int32_t max_step() const { return deployment_.plan().limits.max_tokens; }
  int32_t length() const { return length_; }

  // Rows of the last append, counted from 0, at most max_rows() of them: [R, V], valid until the
  // next call.
  std::span<const float> logits(std::span<const int32_t> rows);
  int32_t max_rows() const { return deployment_.plan().limits.max_logit_rows; }

 private:
  Deployment& deployment_;
  const KvLayout& layout_;
  const int32_t max_length_, max_blocks_;
  StepArrays& arrays_;                        // the executor's
  std::vector<std::vector<int32_t>> tables_;  // [groups][max_blocks]
  std::vector<float> logits_;  // [max_rows, V], where the backend's memory is another
  int32_t length_ = 0;
};

// -log softmax(logits)[token], computed in float64.
double negative_log_likelihood(std::span<const float> logits, int32_t token);

}  // namespace pagoda
