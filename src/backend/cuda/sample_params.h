// What the kernels of the last two operations are told: see logit_edits.cu and sample.cu, and
// sample.h for the operations.
#pragma once

#include <cstdint>

#include "backend/cuda/launch.h"

namespace pagoda::cuda {

// One change of one logit, or of 32 by a mask.
struct LogitEdit {
  int32_t row;
  int32_t at;        // token; of a mask, the index of its word
  float amount;      // penalty: what is subtracted; bias: what is added, -inf: a ban
  float repetition;  // penalty: divides what is positive, multiplies the rest
  uint32_t allowed;  // mask: bit i allows token 32 at + i
  uint32_t unused[3];
};
enum class EditKind : int32_t { penalty, bias, mask };
struct EditParams {
  float* logits;  // [R, V]
  const LogitEdit* edits;
  int64_t row_floats;
  int32_t vocabulary, num_edits;
  EditKind kind;
};
void launch_edits(const EditParams& params, const LaunchOptions& options);

struct DrawRule {
  double draw;        // uniform in [0, 1)
  float temperature;  // 0: the largest
  float top_p, min_p;
  int32_t top_k;         // 0: all
  int32_t num_logprobs;  // -1: none
  int32_t unused;
};
struct Drawn {
  int32_t token;  // -1: has_nan
  int32_t has_nan;
  float logprob;
};
struct TopLogprob {
  int32_t token;  // -1: unused
  float value;
};
struct SampleParams {
  const float* logits;  // [R, V]
  const DrawRule* rules;
  Drawn* drawn;     // [R]
  TopLogprob* top;  // [R, max_logprobs]
  int64_t row_floats;
  int32_t vocabulary, num_rows, max_logprobs;
};
void launch_sample(const SampleParams& params, const LaunchOptions& options);

}  // namespace pagoda::cuda
