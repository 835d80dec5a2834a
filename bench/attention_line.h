// A line of bench_attention: one shape of decode attention over a pool that its launches rotate
// through, so that no launch finds its keys in the L2 cache. graph_us times launches in a CUDA
// graph.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "backend/cuda/check/decode_case.h"

namespace pagoda::cuda {

// Median microseconds of one of `launches` calls in a graph.
double graph_us(const std::function<void(cudaStream_t, int)>& call, int launches);

struct Shape {
  std::string name;
  int32_t B, len, H, KH;
  int32_t D = 128;
  KvDType dtype = KvDType::bf16;
  int32_t S = 0;  // 0: the default
  int32_t q_len = 1;
  int32_t prefix = 0;  // keys that all sequences share
  bool aware = false;  // the plan knows of the prefix
};

// A shape over a pool that many launches rotate through.
class Line {
 public:
  Line(const Shape& shape, std::byte* pool, int64_t pool_bytes);

  double bytes() const;                    // that one launch must read
  void once();                             // one launch, for a profiler
  void start(cudaStream_t stream, int i);  // launch i, over a copy of the pool of its own
  double us(DecodeTuning tuning = {}, EarlyLoads early = EarlyLoads::older_keys);

  bool merges = true;  // false: the first kernel alone, whose answers are then incomplete

 private:
  void fill();
  void plan();
  void launch(cudaStream_t stream, int64_t copy, DecodeTuning tuning, EarlyLoads early);

  Shape s_;
  KvView kv_;
  int32_t max_blocks_ = 0, columns_ = 8;
  int64_t copies_ = 1;
  DecodePlan plan_;
  DecodePlanShape shape_;
  DeviceBytes table_, q_, out_, device_plan_, workspace_;
};

}  // namespace pagoda::cuda
