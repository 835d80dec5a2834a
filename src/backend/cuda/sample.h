// The waist's last two operations on CUDA: logits under their requests' rules, and a token drawn
// from each row. Rules go up and tokens come down within the call, so both wait for the stream.
#pragma once

#include <vector>

#include "backend/backend.h"
#include "backend/cuda/launch.h"
#include "backend/cuda/sample_params.h"

namespace pagoda::cuda {

class Sampling {
 public:
  explicit Sampling(cudaStream_t stream) : stream_(stream) {}

  // Device memory for rows within `shape`; nothing is kept there between calls.
  static int64_t workspace_bytes(const WorkspaceShape& shape);
  void reserve(const WorkspaceShape& shape, std::byte* workspace);

  void process_logits(const ProcessLogitsArgs& args);
  // Throws Error{"cuda.unsupported"} for more log-probabilities than there is room for.
  void sample(const SampleArgs& args);

 private:
  void flush(const ProcessLogitsArgs& args, EditKind kind);
  void copy(void* to, const void* from, int64_t bytes, cudaMemcpyKind kind);

  cudaStream_t stream_;
  std::byte* workspace_ = nullptr;
  int32_t max_rows_ = 0;
  std::vector<LogitEdit> edits_;  // of one kind, to be sent
  std::vector<DrawRule> rules_;
  std::vector<Drawn> drawn_;
  std::vector<TopLogprob> top_;
};

}  // namespace pagoda::cuda
