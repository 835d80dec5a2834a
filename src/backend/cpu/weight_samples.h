// Weights for tests: GGUF tensors with random bytes and well-behaved or extreme scales, their exact
// values, and a Context without a backend. Included by tests only.
#pragma once

#include <cstring>
#include <vector>

#include "backend/cpu/context.h"
#include "base/dequantise.h"
#include "base/half.h"
#include "base/random.h"

namespace pagoda::cpu {

enum class Sample : uint8_t {
  random,
  zeros,             // every byte 0: scales too
  largest,           // every code bit and sub-scale bit set, d large
  smallest,          // codes and sub-scales 0x80 or 0, d large
  subnormal_scales,  // random codes, d and minima subnormal halves
};

// A deterministic sequence; good enough for test data.
class SampleRandom {
 public:
  explicit SampleRandom(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15 + 1) {}
  uint64_t next() {
    state_ += 0x9e3779b97f4a7c15;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  float uniform(float low, float high) {
    return low + (high - low) * static_cast<float>(next() >> 40) * 0x1p-24f;
  }

 private:
  uint64_t state_;
};

struct GgufTensor {
  DType dtype;
  int64_t rows, cols;
  std::vector<std::byte> bytes;

  ConstTensorView view() const { return {bytes.data(), dtype, {rows, cols}}; }
  std::vector<float> row(int64_t r) const {
    std::vector<float> values(cols);
    dequantise_row(dtype, bytes.data() + r * bytes_of(dtype, cols), values);
    return values;
  }
};

// Offsets of the f16 scales of a block.
inline std::vector<int> half_offsets(DType dtype) {
  switch (dtype) {
    case DType::q6_k:
      return {208};
    case DType::q4_1:
    case DType::q5_1:
    case DType::q4_k:
    case DType::q5_k:
      return {0, 2};
    default:
      return {0};
  }
}

inline GgufTensor sample_tensor(
    DType dtype, int64_t rows, int64_t cols, Sample sample = Sample::random, uint64_t seed = 1) {
  GgufTensor t{dtype, rows, cols, std::vector<std::byte>(rows * bytes_of(dtype, cols))};
  SampleRandom random(seed + 100 * static_cast<int>(dtype));
  if (sample == Sample::zeros) return t;
  if (!is_quantised(dtype)) {
    for (int64_t i = 0; i < rows * cols; i++) {
      const float v = random.uniform(-1.f, 1.f);
      const uint16_t half = dtype == DType::f16 ? f32_to_f16(v) : f32_to_bf16(v);
      if (dtype == DType::f32)
        std::memcpy(&t.bytes[4 * i], &v, 4);
      else
        std::memcpy(&t.bytes[2 * i], &half, 2);
    }
    return t;
  }
  for (std::byte& b : t.bytes)
    b = sample == Sample::largest ? std::byte{0xff}
        : sample == Sample::smallest
            ? (dtype == DType::q8_0 || dtype == DType::q6_k ? std::byte{0x80} : std::byte{0})
            : std::byte(random.next());
  const int64_t block = info(dtype).block_bytes;
  for (size_t at = 0; at < t.bytes.size(); at += block)
    for (int offset : half_offsets(dtype)) {
      uint16_t d = f32_to_f16(random.uniform(-0.02f, 0.02f));
      if (sample == Sample::largest || sample == Sample::smallest)
        d = f32_to_f16(random.next() % 2 == 0 ? 60000.f : -60000.f);
      if (sample == Sample::subnormal_scales) d = random.next() % 0x3ff | (random.next() & 0x8000);
      std::memcpy(&t.bytes[at + offset], &d, 2);
    }
  return t;
}

// What an operation needs, with scratch for `shape`.
struct TestContext {
  TestContext(IsaLevel isa, int num_threads, int64_t scratch_bytes)
      : threads(num_threads), context{isa, kernel_table(isa), threads, allocator} {
    scratch = allocator.allocate(scratch_bytes, MemoryTag::workspace);
    context.scratch = scratch.data();
    context.scratch_bytes = scratch.size();
  }
  HostAllocator allocator;
  ThreadPool threads;
  Buffer scratch;
  Context context;
};

}  // namespace pagoda::cpu
