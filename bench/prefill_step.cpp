#include "prefill_step.h"

#include <fmt/format.h>

#include <memory>
#include <vector>

#include "attention_line.h"
#include "prefill_line.h"

namespace pagoda::cuda {
namespace {

constexpr int kChunks = 16;  // of as many prompts, so that none is in the L2 cache: 270 MB
constexpr int64_t kPoolBytes = int64_t{3} << 30;

// The second stream of a step: waits for the first, and is waited for.
class Fork {
 public:
  Fork() {
    CUDA_CHECK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    CUDA_CHECK(cudaEventCreateWithFlags(&begin_, cudaEventDisableTiming));
    CUDA_CHECK(cudaEventCreateWithFlags(&end_, cudaEventDisableTiming));
  }
  Fork(const Fork&) = delete;
  ~Fork() {
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
    cudaStreamDestroy(stream_);
  }
  cudaStream_t begin(cudaStream_t from) {
    CUDA_CHECK(cudaEventRecord(begin_, from));
    CUDA_CHECK(cudaStreamWaitEvent(stream_, begin_));
    return stream_;
  }
  void join(cudaStream_t to) {
    CUDA_CHECK(cudaEventRecord(end_, stream_));
    CUDA_CHECK(cudaStreamWaitEvent(to, end_));
  }

 private:
  cudaStream_t stream_;
  cudaEvent_t begin_, end_;
};

}  // namespace

void step_lines() {
  const DeviceBytes pool(kPoolBytes);
  Line decodes({"", 64, 4096, 32, 8}, pool.as(), kPoolBytes);
  Fork fork;
  fmt::print("step: 64 decodes over 4k and a chunk of 512, bf16, hd128 32/8, blocks of 16; us\n");
  for (int32_t cached : {0, 3584, 15872}) {
    std::vector<std::unique_ptr<PrefillLine>> chunks;
    for (int i = 0; i < kChunks; i++)
      chunks.push_back(std::make_unique<PrefillLine>(
          PrefillShape{"", 128, 32, 8, {512}, {512 + cached}, PrefillMask::causal, 16, true}));
    const auto decode = [&](cudaStream_t stream, int i) { decodes.start(stream, i); };
    const auto chunk = [&](cudaStream_t stream, int i) { chunks[i % kChunks]->launch(stream); };
    const double decode_us = graph_us(decode, 32), chunk_us = graph_us(chunk, 32);
    const double decode_first =
        graph_us([&](cudaStream_t stream, int i) { decode(stream, i), chunk(stream, i); }, 32);
    const double chunk_first =
        graph_us([&](cudaStream_t stream, int i) { chunk(stream, i), decode(stream, i); }, 32);
    const double two_streams = graph_us(
        [&](cudaStream_t stream, int i) {
          chunk(fork.begin(stream), i);
          decode(stream, i);
          fork.join(stream);
        },
        32);
    const double sum = decode_us + chunk_us;
    fmt::print(
        "step: {:>5} cached: decodes {:.1f} + chunk {:.1f} = {:.1f}; decodes first {:.1f} "
        "({:.3f}), "
        "chunk first {:.1f} ({:.3f}), two streams {:.1f} ({:.3f})\n",
        cached,
        decode_us,
        chunk_us,
        sum,
        decode_first,
        decode_first / sum,
        chunk_first,
        chunk_first / sum,
        two_streams,
        two_streams / sum);
  }
}

}  // namespace pagoda::cuda
