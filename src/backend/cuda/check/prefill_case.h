// One prefill problem on the GPU, for checks and benchmarks: like DecodeCase (decode_case.h),
// random keys and values in a paged cache, random queries, a plan, and the float64 reference that
// reads the same cache. Unwritten slots hold NaN, block table entries that must not be read point
// far outside the pool, outputs are poisoned before each run; Q is a slice of a wider QKV product.
//
// Numbers are a function of (seed, sequence, position), so cases that differ only in blocks, in
// tiles or in how their rows are cut into chunks must give equal bits.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/cuda/attention.h"
#include "backend/cuda/check/decode_case.h"
#include "backend/cuda/check/reference_kernels.h"
#include "backend/cuda/prefill.h"

namespace pagoda::cuda {

// How keys grow over a sequence: scores then jump by far more than what moves a row's reference.
enum class Jumps : uint8_t { none, rising, falling, spikes };

struct PrefillCaseShape {
  KvDType dtype = KvDType::bf16;
  DType q_dtype = DType::bf16;  // f16 over f16 KV
  PrefillPath path = PrefillPath::automatic;
  bool fp8_scales = false;
  bool scratch = false;  // quantised KV by way of a 16-bit copy
  int32_t num_heads = 4, kv_heads = 2, head_dim = 128, block_size = 16;
  std::vector<int32_t> kv_lens;
  std::vector<int32_t> q_lens;  // empty: as kv_lens
  int32_t window = 0;
  float softcap = 0.f;
  bool sinks = false;
  PrefillMask mask = PrefillMask::causal;
  Jumps jumps = Jumps::none;
  float q_gain = 1.f;
  bool rising_blocks = false;  // block ids in order instead of at random
  int32_t first_block = 0;     // ids from here on: pools beyond 2^31 elements
  int32_t section_heads = 0;
  int32_t span_tiles = 0;           // instead of the kernel's, if it knows spans
  int32_t whole_keys = kWholeKeys;  // as PrefillPlanInput
  int32_t max_parts = kEverything;
  int32_t num_multiprocessors = 132;
  int32_t ranks = 0;  // as PrefillLaunch
  uint32_t seed = 1;
};

class PrefillCase {
 public:
  explicit PrefillCase(const PrefillCaseShape& shape);

  void run(cudaStream_t stream);  // the whole batch, in one launch unless max_parts says otherwise
  void run_by(Attention& attention);  // as the backend does
  std::vector<uint16_t> output();
  // Each sequence for itself, in chunks of so many rows, each over the keys up to its end.
  std::vector<uint16_t> output_in_chunks(int32_t rows);
  std::vector<uint16_t> last_output();
  CaseError error();  // of the last output
  void poison();
  int32_t ticket() const;  // as the last launch left it
  int64_t num_rows() const { return T_; }
  const std::vector<PrefillPlan>& plans() const { return plans_; }

 private:
  struct Part {  // of the batch, as a launch of its own
    int32_t seq, row, num_rows, kv_len;
  };

  void lay_out_blocks();
  void write_cache();
  void write_queries();
  bool is_bf16() const { return s_.q_dtype == DType::bf16; }
  const float* k_scales() const { return s_.fp8_scales ? scales_.as<float>() : nullptr; }
  const float* v_scales() const {
    return s_.fp8_scales ? scales_.as<float>() + s_.kv_heads : nullptr;
  }
  AttentionBatch batch_from(int32_t seq) const;
  AttentionArgs args_of(const Part& part, const AttentionBatch& batch) const;
  struct DevicePlan {
    DeviceBytes bytes;
    PrefillPlanShape shape;
  };
  void launch(const Part& part,
              const DevicePlan& plan,
              const PrefillScratch& scratch,
              cudaStream_t stream);
  std::vector<int32_t> reference_rows() const;
  ReferenceParams reference_params() const;
  PrefillScratch make_scratch(std::span<const int32_t> cu_q_lens, std::span<const int32_t> kv_lens);
  std::vector<PrefillPlan> make_plans(std::span<const int32_t> cu_q_lens,
                                      std::span<const int32_t> kv_lens) const;

  PrefillCaseShape s_;
  int32_t T_ = 0, max_blocks_ = 0;
  std::vector<int32_t> cu_q_lens_, table_;
  PrefillTileSize tile_;
  KvView kv_;
  std::vector<PrefillPlan> plans_;  // a launch each
  std::vector<DevicePlan> device_plans_;
  DevicePlan part_plan_;    // of a chunk
  PrefillScratch scratch_;  // of the whole batch
  DeviceBytes scratch_memory_, scratch_plan_, part_scratch_plan_;
  DeviceBytes pool_, q_, out_, sums_, sinks_, scales_, device_table_, workspace_, ticket_;
  int64_t workspace_bytes_ = 0, part_plan_bytes_ = 0;
  std::vector<uint16_t> last_;
};

}  // namespace pagoda::cuda
