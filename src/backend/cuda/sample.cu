// sample: temperature, top-k, top-p, min-p, the draw, and the largest log-probabilities, without
// sorting.
//   In: logits [R, V] f32, a rule for each row. Out: a token, its logprob, the largest [R, n].
//   A block of 1024 threads a row. Weights exp((x - max) / temperature) are fixed-point numbers of
//   2^-40, so sums are exact in any order. "Where in descending order of logit and ascending id
//   does the sum pass y?" is answered by four passes over the row, each a histogram by 8 bits of
//   the logit's order-preserving key; top-k, top-p and the draw are that question. Moves V x 4
//   bytes (from L2) 2 to 20 times; a few FLOPs an element. Limits, checked by limits.cpp: V < 2^23.
//   Must equal the reference's sample but where a draw lies within rounding of a border.
#include <cmath>

#include "backend/cuda/numbers.cuh"
#include "backend/cuda/ptx.cuh"
#include "backend/cuda/sample_params.h"

namespace pagoda::cuda {
namespace {

using Mass = unsigned long long;

constexpr int kWarps = 32, kThreads = kWarps * 32, kBins = 256;
constexpr double kOne = 0x1p40;  // the weight of the largest logit

struct Shared {
  Mass histogram[kWarps][kBins];
  Mass bins[kBins];
  float best_value[kWarps];
  int32_t best_token[kWarps];
  uint32_t key;   // that the sum passes at
  Mass before;    // sum of larger keys
  uint32_t ties;  // tokens of that key up to the place
  int32_t token;
};

// Larger floats have larger keys.
__device__ __forceinline__ uint32_t key_of(float x) {
  const uint32_t bits = __float_as_uint(x == 0.f ? 0.f : x);
  return bits >> 31 ? ~bits : bits | 0x80000000u;
}
__device__ __forceinline__ float value_of(uint32_t key) {
  return __uint_as_float(key >> 31 ? key & 0x7FFFFFFFu : ~key);
}

// All tokens with a larger key, and of those with this one the first `ties` by id.
struct Cut {
  uint32_t key;
  uint32_t ties;
};

enum class Measure : int32_t { count, weight };

class Row {
 public:
  __device__ Row(const SampleParams& p, Shared& shared)
      : shared_(shared),
        logits_(p.logits + blockIdx.x * p.row_floats),
        size_(p.vocabulary),
        rule_(p.rules[blockIdx.x]) {}

  // The largest after `than` in descending order of value and ascending id; token -1: none.
  __device__ TopLogprob next_largest(TopLogprob than) const {
    TopLogprob best = {-1, -INFINITY};
    for (int i = threadIdx.x; i < size_; i += kThreads) {
      const float x = logits_[i];
      const bool is_after = x < than.value || (x == than.value && i > than.token);
      if (is_after && x > best.value) best = {i, x};
    }
    return largest_of_block(best);
  }
  __device__ bool is_broken() const {
    bool broken = false;
    for (int i = threadIdx.x; i < size_; i += kThreads)
      broken |= isnan(logits_[i]) || logits_[i] == INFINITY;
    return __syncthreads_or(broken);
  }
  // log of the sum of exp(x), in the order of threads.
  __device__ float log_sum_exp(float maximum) const {
    double sum = 0;
    for (int i = threadIdx.x; i < size_; i += kThreads) sum += double(expf(logits_[i] - maximum));
    return static_cast<float>(double(maximum) + log(block_sum<kThreads>(sum)));
  }
  __device__ float at(int32_t token) const { return logits_[token]; }

  __device__ int32_t draw(float maximum) {
    maximum_ = maximum;
    Cut cut = {key_of(-INFINITY), 0};  // everything but what is banned
    if (rule_.top_k > 0) {
      const Mass kept = total(Measure::count, cut);
      if (Mass(rule_.top_k) < kept) cut = place_of(Measure::count, cut, rule_.top_k);
    }
    if (rule_.top_p < 1.f) {
      const double target = ceil(double(rule_.top_p) * double(total(Measure::weight, cut)));
      cut = place_of(Measure::weight, cut, max(Mass(1), Mass(target)));
    }
    if (rule_.min_p > 0.f) cut = at_least(cut, double(rule_.min_p) * kOne);
    const Mass all = total(Measure::weight, cut);
    const Mass target = min(all, Mass(rule_.draw * double(all)) + 1);
    return token_at(place_of(Measure::weight, cut, target));
  }

 private:
  __device__ Mass weight(float x) const {
    return __double2ull_rn(double(expf((x - maximum_) / rule_.temperature)) * kOne);
  }
  __device__ Mass measure(Measure what, float x) const {
    return what == Measure::count ? Mass(1) : weight(x);
  }

  __device__ Mass total(Measure what, Cut cut) const {
    Mass sum = 0;
    for (int i = threadIdx.x; i < size_; i += kThreads)
      if (key_of(logits_[i]) > cut.key) sum += measure(what, logits_[i]);
    if (threadIdx.x == 0 && cut.ties > 0) sum += cut.ties * measure(what, value_of(cut.key));
    return block_sum<kThreads>(sum);
  }

  // Where the sum over the tokens of `cut`, in order, reaches `target` (at most their total).
  __device__ Cut place_of(Measure what, Cut cut, Mass target) {
    uint32_t prefix = 0;
    Mass before = 0;  // of keys above the prefix's range
    for (int shift = 24; shift >= 0; shift -= 8) {
      for (int i = threadIdx.x; i < kWarps * kBins; i += kThreads)
        (&shared_.histogram[0][0])[i] = 0;
      __syncthreads();
      const auto add = [&](uint32_t key, Mass mass) {
        if (shift < 24 && key >> (shift + 8) != prefix >> (shift + 8)) return;
        if (mass > 0) atomicAdd(&shared_.histogram[threadIdx.x / 32][key >> shift & 255], mass);
      };
      for (int i = threadIdx.x; i < size_; i += kThreads)
        if (key_of(logits_[i]) > cut.key) add(key_of(logits_[i]), measure(what, logits_[i]));
      if (threadIdx.x == 0 && cut.ties > 0)
        add(cut.key, cut.ties * measure(what, value_of(cut.key)));
      __syncthreads();
      find_bin(target, before, shift, prefix);
    }
    const Mass each = measure(what, value_of(prefix));
    return {prefix, static_cast<uint32_t>((target - before + each - 1) / each)};
  }

  // The bin, from the largest down, in which the sum reaches the target.
  __device__ void find_bin(Mass target, Mass& before, int shift, uint32_t& prefix) {
    if (threadIdx.x < kBins) {
      Mass sum = 0;
      for (int w = 0; w < kWarps; w++) sum += shared_.histogram[w][threadIdx.x];
      shared_.bins[threadIdx.x] = sum;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      Mass sum = before;
      int bin = kBins - 1;
      while (bin > 0 && sum + shared_.bins[bin] < target) sum += shared_.bins[bin--];
      shared_.before = sum;
      shared_.key = prefix | static_cast<uint32_t>(bin) << shift;
    }
    __syncthreads();
    before = shared_.before;
    prefix = shared_.key;
  }

  // Without the tokens that weigh less than `least`; the largest stays.
  __device__ Cut at_least(Cut cut, double least) {
    uint32_t lowest = key_of(maximum_);
    for (int i = threadIdx.x; i < size_; i += kThreads) {
      const uint32_t key = key_of(logits_[i]);
      if (key > cut.key && double(weight(logits_[i])) >= least) lowest = min(lowest, key);
    }
    if (cut.ties > 0 && double(weight(value_of(cut.key))) >= least) return cut;
    lowest = ~__reduce_max_sync(~0u, ~lowest);
    __syncthreads();
    if (threadIdx.x % 32 == 0) shared_.best_token[threadIdx.x / 32] = static_cast<int32_t>(lowest);
    __syncthreads();
    for (int w = 0; w < kWarps; w++)
      lowest = min(lowest, static_cast<uint32_t>(shared_.best_token[w]));
    return {lowest - 1, 0};  // all above the key below it
  }

  // The last token of a place.
  __device__ int32_t token_at(Cut place) {
    uint32_t left = place.ties;
    for (int first = 0; first < size_; first += kThreads) {
      const int i = first + threadIdx.x;
      const bool is_one = i < size_ && key_of(logits_[i]) == place.key;
      const uint32_t here = __syncthreads_count(is_one);
      if (left > here) {
        left -= here;
        continue;
      }
      const uint32_t ones = __ballot_sync(~0u, is_one);
      if (threadIdx.x % 32 == 0) shared_.best_token[threadIdx.x / 32] = __popc(ones);
      __syncthreads();
      uint32_t rank = __popc(ones & ((2u << threadIdx.x % 32) - 1));
      for (int w = 0; w < threadIdx.x / 32; w++) rank += shared_.best_token[w];
      if (is_one && rank == left) shared_.token = i;
      break;
    }
    __syncthreads();
    return shared_.token;
  }

  __device__ TopLogprob largest_of_block(TopLogprob best) const {
    const auto take = [&](int32_t token, float value) {
      const bool is_better = token >= 0 && (best.token < 0 || value > best.value ||
                                            (value == best.value && token < best.token));
      if (is_better) best = {token, value};
    };
#pragma unroll
    for (int d = 16; d > 0; d /= 2) {
      const int32_t token = __shfl_xor_sync(~0u, best.token, d);
      const float value = __shfl_xor_sync(~0u, best.value, d);
      take(token, value);
    }
    __syncthreads();
    if (threadIdx.x % 32 == 0) {
      shared_.best_token[threadIdx.x / 32] = best.token;
      shared_.best_value[threadIdx.x / 32] = best.value;
    }
    __syncthreads();
    for (int w = 0; w < kWarps; w++) take(shared_.best_token[w], shared_.best_value[w]);
    return best;
  }

  Shared& shared_;
  const float* logits_;
  int size_;
  DrawRule rule_;
  float maximum_ = 0.f;
};

__global__ void __launch_bounds__(kThreads) sample_kernel(const __grid_constant__ SampleParams p) {
  extern __shared__ __align__(16) uint8_t bytes[];
  pdl_wait();
  pdl_launch_next();
  Row row(p, *reinterpret_cast<Shared*>(bytes));
  const DrawRule rule = p.rules[blockIdx.x];
  TopLogprob* top = p.top + int64_t{blockIdx.x} * p.max_logprobs;
  for (int i = threadIdx.x; i < p.max_logprobs; i += kThreads) top[i] = {-1, 0.f};
  const bool is_broken = row.is_broken();
  const TopLogprob largest = row.next_largest({-1, INFINITY});
  Drawn drawn = {-1, is_broken || largest.token < 0, 0.f};
  if (!drawn.has_nan) {
    drawn.token = rule.temperature > 0.f ? row.draw(largest.value) : largest.token;
    if (rule.num_logprobs >= 0) {
      const float normaliser = row.log_sum_exp(largest.value);
      drawn.logprob = row.at(drawn.token) - normaliser;
      TopLogprob next = largest;
      for (int i = 0; i < min(rule.num_logprobs, p.max_logprobs) && next.token >= 0; i++) {
        if (threadIdx.x == 0) top[i] = {next.token, next.value - normaliser};
        next = row.next_largest(next);
      }
    }
  }
  if (threadIdx.x == 0) p.drawn[blockIdx.x] = drawn;
}

}  // namespace

void launch_sample(const SampleParams& params, const LaunchOptions& options) {
  const int32_t bytes = sizeof(Shared);
  CUDA_CHECK(
      cudaFuncSetAttribute(sample_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  launch_kernel(sample_kernel, {params.num_rows, kThreads, bytes}, options, params);
}

}  // namespace pagoda::cuda
