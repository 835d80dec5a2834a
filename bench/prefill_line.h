// A line of bench_prefill: one shape of prefill attention over a cache of random keys and values;
// "contiguous" is a cache of 128-token blocks in order.
#pragma once

#include <string>
#include <vector>

#include "backend/cuda/check/decode_case.h"
#include "backend/cuda/prefill.h"

namespace pagoda::cuda {

struct PrefillShape {
  std::string name;
  int32_t D, H, KH;
  std::vector<int32_t> q_lens, kv_lens;
  PrefillMask mask = PrefillMask::causal;
  int32_t S = 128;
  bool random_blocks = false;
  int32_t ranks = 0;  // as PrefillLaunch
  KvDType dtype = KvDType::bf16;
  PrefillPath path = PrefillPath::automatic;
  bool scratch = false;  // quantised KV by way of a 16-bit copy
};

class PrefillLine {
 public:
  explicit PrefillLine(const PrefillShape& shape);

  double flops() const;  // causal counted as half
  void launch(cudaStream_t stream = nullptr);

 private:
  void lay_out_blocks();
  void fill();
  void plan();

  PrefillShape s_;
  KvView kv_;
  int32_t max_blocks_ = 0;
  std::vector<int32_t> cu_;
  PrefillTileSize tile_;
  PrefillPlanShape plan_shape_;
  PrefillScratch scratch_;
  DeviceBytes scratch_memory_, scratch_plan_;
  DeviceBytes pool_, q_, out_, table_, device_plan_, workspace_, ticket_;
};

}  // namespace pagoda::cuda
