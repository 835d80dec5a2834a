// bench_prefill: GPU prefill attention in TFLOP/s (causal counted as half). Protocol: CUDA events,
// median, in two states: hot, after 1.2 s of load, and rested, 10 launches after 0.4 s of idling;
// beside each the share of tensor-core clocks in use, which the card's heat does not move. Random
// data, 16k tokens in all unless the line says otherwise; "contiguous" is a cache of 128-token
// blocks in order. `--json FILE` writes every figure, `--only WORD` picks lines.
// bench/prefill_peers.py times cuDNN and FlashAttention-2 alike.
#include <cuda_runtime.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "attention_kernels.h"
#include "prefill_line.h"
#include "prefill_step.h"

namespace pagoda::cuda {
namespace {

using Clock = std::chrono::steady_clock;

class PrefillBench {
 public:
  std::string only;
  int32_t ranks = 0;

  PrefillBench() {
    for (cudaEvent_t& event : events_) CUDA_CHECK(cudaEventCreate(&event));
    CUDA_CHECK(cudaStreamCreateWithFlags(&clock_stream_, cudaStreamNonBlocking));
    fmt::print("{:<30}{:>8}{:>8}{:>9}{:>8}{:>8}   TFLOP/s, MHz, tensor clocks in use\n",
               "line",
               "hot",
               "MHz",
               "rested",
               "MHz",
               "in use");
  }

  // Hot and rested TFLOP/s.
  std::pair<double, double> line(PrefillShape shape) {
    shape.ranks = ranks;
    if (shape.name.find(only) == std::string::npos) return {1, 1};
    PrefillLine line(shape);
    line.launch();
    CUDA_CHECK(cudaDeviceSynchronize());
    const auto from = Clock::now();
    while (Clock::now() - from < std::chrono::milliseconds(1200)) {
      for (int i = 0; i < 4; i++) line.launch();
      CUDA_CHECK(cudaDeviceSynchronize());
    }
    const State hot = measure(line, 11);
    std::this_thread::sleep_for(std::chrono::milliseconds(400));
    for (int i = 0; i < 3; i++) line.launch();
    const State rested = measure(line, 7);
    fmt::print("{:<30}{:>8.0f}{:>8.0f}{:>9.0f}{:>8.0f}{:>7.1f}%\n",
               shape.name,
               hot.tflops,
               hot.mhz,
               rested.tflops,
               rested.mhz,
               100 * hot.tflops / (0.540672 * hot.mhz));
    if (!json_.empty()) json_ += ", ";
    json_ += fmt::format("\"{}\": [{:.1f}, {:.1f}]", shape.name, hot.tflops, rested.tflops);
    return {hot.tflops, rested.tflops};
  }

  std::string json() const { return "{" + json_ + "}"; }

 private:
  struct State {
    double tflops, mhz;
  };

  // Queued without a wait between them, so that no launch is timed with the host's part of it.
  State measure(PrefillLine& line, int launches) {
    CUDA_CHECK(cudaEventRecord(events_[0]));
    for (int i = 0; i < launches; i++) {
      line.launch();
      CUDA_CHECK(cudaEventRecord(events_[i + 1]));
      if (i == launches / 2) {  // beside the next one, in the few registers that it leaves
        CUDA_CHECK(cudaStreamWaitEvent(clock_stream_, events_[i]));
        launch_clock(clock_.as<int64_t>(), clock_stream_);
      }
    }
    std::vector<float> times(launches);
    CUDA_CHECK(cudaEventSynchronize(events_[launches]));
    for (int i = 0; i < launches; i++)
      CUDA_CHECK(cudaEventElapsedTime(&times[i], events_[i], events_[i + 1]));
    CUDA_CHECK(cudaDeviceSynchronize());
    int64_t ticks[2];
    CUDA_CHECK(cudaMemcpy(ticks, clock_.as(), sizeof ticks, cudaMemcpyDeviceToHost));
    std::sort(times.begin(), times.end());
    return {line.flops() / times[times.size() / 2] * 1e-9,
            1e3 * double(ticks[0]) / double(ticks[1])};
  }

  cudaEvent_t events_[12];
  cudaStream_t clock_stream_ = nullptr;
  DeviceBytes clock_ = DeviceBytes(16);
  std::string json_;
};

std::vector<int32_t> repeated(int32_t n, int32_t len) {
  return std::vector<int32_t>(n, len);
}

void fixed_lines(PrefillBench& bench) {
  struct Heads {
    int32_t D, H, KH;
  };
  for (const Heads& h :
       {Heads{128, 32, 8}, Heads{128, 16, 16}, Heads{64, 32, 32}, Heads{256, 8, 8}})
    for (int32_t len : {1024, 4096, 16384, -4096}) {
      const int32_t keys = std::abs(len), B = 16384 / keys;
      PrefillShape s = {
          fmt::format("hd{} {}/{} {}k{}", h.D, h.H, h.KH, keys / 1024, len < 0 ? " full" : ""),
          h.D,
          h.H,
          h.KH,
          repeated(B, keys),
          repeated(B, keys)};
      if (len < 0) s.mask = PrefillMask::full;
      bench.line(s);
    }
}

void varlen_lines(PrefillBench& bench) {
  std::vector<int32_t> lens;  // heavy-tailed, 64 to 8k
  std::mt19937 random(7);
  int64_t total = 0;
  for (int i = 0; i < 64; i++) {
    const double u = double(random() % 10000 + 1) / 10001.;
    lens.push_back(static_cast<int32_t>(std::min(8192., 64. / std::pow(u, 0.9))));
    total += lens.back();
  }
  const auto mean = static_cast<int32_t>(total / 64);
  bench.line({fmt::format("varlen 64, mean {}", mean), 128, 32, 8, lens, lens});
  bench.line(
      {fmt::format("fixed 64 x {}", mean), 128, 32, 8, repeated(64, mean), repeated(64, mean)});
}

// The mma.sync kernels on 16-bit KV, beside FlashAttention-2 in prefill_peers.py.
void mma_lines(PrefillBench& bench) {
  struct Heads {
    int32_t D, H, KH;
  };
  for (const Heads& h : {Heads{128, 32, 8}, Heads{64, 32, 32}, Heads{256, 8, 8}})
    for (int32_t keys : {1024, 4096, 16384}) {
      const int32_t B = 16384 / keys;
      PrefillShape s = {fmt::format("hd{} {}/{} {}k mma", h.D, h.H, h.KH, keys / 1024),
                        h.D,
                        h.H,
                        h.KH,
                        repeated(B, keys),
                        repeated(B, keys)};
      s.path = PrefillPath::mma;
      bench.line(s);
    }
}

// In blocks of the format's default size, in random order.
void quantised_lines(PrefillBench& bench) {
  for (bool scratch : {false, true})
    for (KvDType dtype : {KvDType::int8, KvDType::int4, KvDType::fp8})
      for (int32_t keys : {1024, 4096, 16384}) {
        const int32_t B = 16384 / keys;
        const char* how = scratch ? " copied" : "";
        PrefillShape s = {fmt::format("hd128 32/8 {}k {}{}", keys / 1024, name(dtype), how),
                          128,
                          32,
                          8,
                          repeated(B, keys),
                          repeated(B, keys)};
        s.S = default_block_size(dtype);
        s.random_blocks = true;
        s.dtype = dtype;
        s.scratch = scratch;
        bench.line(s);
      }
}

void run(PrefillBench& bench) {
  fixed_lines(bench);
  for (int32_t S : {64, 16})
    for (int32_t len : {4096, 16384}) {
      const int32_t B = 16384 / len;
      bench.line({fmt::format("hd128 32/8 {}k blocks of {}", len / 1024, S),
                  128,
                  32,
                  8,
                  repeated(B, len),
                  repeated(B, len),
                  PrefillMask::causal,
                  S,
                  true});
    }
  for (const auto& [rows, keys] :
       {std::pair{512, 16}, {128, 32}, {128, 128}, {512, 32}, {2048, 64}})
    bench.line({fmt::format("{} over {}k, blocks of 16", rows, keys),
                128,
                32,
                8,
                {rows},
                {rows + keys * 1024},
                PrefillMask::causal,
                16,
                true});
  for (int32_t keys : {2, 4, 8})
    bench.line({fmt::format("hd128 32/8 one prompt of {}k", keys),
                128,
                32,
                8,
                {keys * 1024},
                {keys * 1024}});
  varlen_lines(bench);
  mma_lines(bench);
  quantised_lines(bench);
  if (std::string("step").find(bench.only) != std::string::npos) step_lines();
}

}  // namespace
}  // namespace pagoda::cuda

int main(int argc, char** argv) {
  std::string file, only;
  int32_t ranks = 0;
  for (int i = 1; i < argc; i += 2) {
    const std::string flag = i + 1 < argc ? argv[i] : "";
    if (flag == "--only") {
      only = argv[i + 1];
    } else if (flag == "--ranks") {
      ranks = std::atoi(argv[i + 1]);
    } else if (flag == "--json") {
      file = argv[i + 1];
    } else {
      fmt::print(
          "usage: bench_prefill [--only WORD] [--json FILE] [--ranks 1]\n"
          "  --only   lines with that word; --ranks 1: no two multiprocessors share keys\n");
      return 2;
    }
  }
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    fmt::print("bench_prefill: no GPU here\n");
    return 4;
  }
  try {
    pagoda::cuda::PrefillBench bench;
    bench.only = only;
    bench.ranks = ranks;
    pagoda::cuda::run(bench);
    if (!file.empty()) std::ofstream(file) << bench.json() << "\n";
  } catch (const pagoda::Error& e) {
    fmt::print("bench_prefill: {}\n", e.message());
    return 1;
  }
  return 0;
}
