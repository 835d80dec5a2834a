// One decode problem on the GPU, for checks and benchmarks: random keys and values written to a
// paged cache by the append kernel, random queries, a plan, and the float64 reference that reads
// the same cache. Slots that no token has written hold NaN, block table entries that must not be
// read point far outside the pool, outputs are poisoned before each run.
//
// Values are a function of (seed, sequence, position), not of blocks, so two cases that differ only
// in block size or order hold the same numbers.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backend/cuda/check/report.h"
#include "backend/cuda/decode.h"

namespace pagoda::cuda {

// Device memory with an owner.
class DeviceBytes {
 public:
  DeviceBytes() = default;
  explicit DeviceBytes(int64_t bytes) {
    if (bytes > 0) CUDA_CHECK(cudaMalloc(&data_, bytes));
  }
  DeviceBytes(DeviceBytes&& other) noexcept { std::swap(data_, other.data_); }
  DeviceBytes& operator=(DeviceBytes&& other) noexcept {
    std::swap(data_, other.data_);
    return *this;
  }
  ~DeviceBytes() { cudaFree(data_); }
  template <typename T = std::byte>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  void* data_ = nullptr;
};

template <typename T>
DeviceBytes to_device(std::span<const T> host) {
  DeviceBytes bytes(host.size_bytes());
  if (!host.empty())
    CUDA_CHECK(cudaMemcpy(bytes.as(), host.data(), host.size_bytes(), cudaMemcpyHostToDevice));
  return bytes;
}

struct CaseShape {
  KvDType dtype = KvDType::bf16;
  DType q_dtype = DType::bf16;
  int32_t num_heads = 8, kv_heads = 2, head_dim = 128, block_size = 16;
  std::vector<int32_t> kv_lens;
  std::vector<int32_t> q_lens;  // empty: 1 each
  int32_t window = 0;
  float softcap = 0.f;
  bool sinks = false;
  bool fp8_scales = false;
  float q_gain = 1.f;
  bool rising_blocks = false;        // block ids in order instead of at random
  int32_t first_block = 0;           // ids from here on: pools beyond 2^31 elements
  int32_t columns = 0;               // of the kernel; 0: what decode_columns says
  std::vector<SharedPrefix> shared;  // whole blocks
  uint32_t seed = 1;
  int32_t first_seq = 0;  // sequence b holds the numbers of sequence first_seq + b
};

class DecodeCase {
 public:
  explicit DecodeCase(const CaseShape& shape);

  void run(cudaStream_t stream, DecodeTuning tuning = {}, EarlyLoads early = EarlyLoads::none);
  std::vector<uint16_t> output(DecodeTuning tuning = {});  // poisons, runs, waits
  std::vector<uint16_t> last_output();                     // as it lies on the device
  CaseError error();                                       // of the last output
  int32_t num_rows() const { return static_cast<int32_t>(plan_.rows.size()); }
  const DecodePlan& plan() const { return plan_; }
  void poison();

 private:
  void lay_out_blocks();
  void write_cache();
  void make_plan();

  CaseShape s_;
  int32_t T_ = 0, max_blocks_ = 0;
  std::vector<int32_t> cu_q_lens_, table_;
  KvView kv_;
  DecodePlan plan_;
  DecodePlanShape plan_shape_;
  DeviceBytes pool_, q_, out_, sums_, sinks_, scales_, device_table_, device_plan_, workspace_;
  std::vector<uint16_t> last_;
};

// Fills rows [n, width] with near-normal numbers as bf16 or f16: element (i, j) of key ids[i].
void fill_random(void* rows,
                 bool bf16,
                 int64_t n,
                 int32_t width,
                 const uint64_t* ids,
                 uint32_t seed,
                 float gain,
                 cudaStream_t stream);

}  // namespace pagoda::cuda
