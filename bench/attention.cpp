// bench_attention: GPU decode attention, append and block copy, each line beside the read-only
// stream and the empty kernel of the same run. Protocol: a CUDA graph of at least 20 launches over
// at least 260 MB of random KV in blocks of random order, median of replays. `--tune` sweeps blocks
// per multiprocessor and ring sizes; `--json FILE` writes every figure; `--only WORD` picks lines.
#include <cuda_runtime.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "attention_kernels.h"
#include "attention_line.h"
#include "backend/cuda/append.h"
#include "backend/cuda/block_copy.h"
#include "backend/cuda/check/decode_case.h"
#include "backend/cuda/check/reference_kernels.h"
#include "backend/cuda/decode.h"

namespace pagoda::cuda {
namespace {

class Bench {
 public:
  explicit Bench(bool tune) : tune_(tune), pool_(kPoolBytes) {
    fmt::print("{:<26}{:>10}{:>9}{:>9}{:>9}{:>9}\n",
               "line",
               "us",
               "TB/s",
               "of read",
               "late us",
               "no merge");
  }

  void ceilings() {
    for (int i = 0; i < 40; i++) CUDA_CHECK(cudaMemset(pool_.as(), 0, kPoolBytes));  // wakes clocks
    CUDA_CHECK(cudaDeviceSynchronize());
    const double read_us = graph_us(
        [&](cudaStream_t s, int) {
          launch_read_stream(pool_.as(), int64_t{4} << 30, sink_.as<uint32_t>(), s);
        },
        20);
    stream_ = double(int64_t{4} << 30) / read_us * 1e-6;
    empty_us_ = graph_us([](cudaStream_t s, int) { launch_empty(s); }, 50);
    fmt::print("{:<26}{:>10.1f}{:>9.2f}\n", "read-only stream 4 GiB", read_us, stream_);
    fmt::print("{:<26}{:>10.2f}\n", "empty kernel", empty_us_);
    put("read_stream", read_us, stream_);
    put("empty", empty_us_, 0);
  }

  // Lines whose name lacks `only` are skipped; `once`: one launch each, for a profiler.
  std::string only;
  bool once = false;

  double line(const Shape& shape) {
    if (shape.name.find(only) == std::string::npos) return 1;
    Line line(shape, pool_.as(), kPoolBytes);
    if (once) {
      line.once();
      return 1;
    }
    const double us = line.us(), late = line.us({}, EarlyLoads::none);
    const double rate = line.bytes() / us * 1e-6;
    line.merges = false;
    const double unmerged = line.us();
    line.merges = true;
    fmt::print("{:<26}{:>10.2f}{:>9.2f}{:>9.3f}{:>9.2f}{:>9.2f}\n",
               shape.name,
               us,
               rate,
               rate / stream_,
               late,
               unmerged);
    put(shape.name, us, rate, late);
    if (tune_) sweep(line);
    return us;
  }

  void append(const std::string& name, int32_t T, KvDType dtype);
  void blocks();
  void ratio(const std::string& name, double x) {
    fmt::print("{:<26}{:>10.3f} x\n", name, x);
    put(name, x, 0);
  }

  std::string json() const { return "{" + json_ + "}"; }

 private:
  static constexpr int64_t kPoolBytes = int64_t{4700} << 20;

  void put(const std::string& name, double us, double rate, double late = 0) {
    if (!json_.empty()) json_ += ", ";
    json_ += fmt::format(
        "\"{}\": {{\"us\": {:.3f}, \"tb_s\": {:.4f}, \"late_us\": {:.3f}}}", name, us, rate, late);
  }

  // blocks x kilobytes on their way per multiprocessor (/ slots of the ring, most if not said).
  void sweep(Line& line) {
    for (int32_t blocks : {1, 2, 3, 4, 5}) {
      std::string all;
      for (int32_t flying_kb : {64, 80, 96, 112, 128, 160, 200}) {
        try {
          const double us = line.us({blocks, 0, 0, flying_kb << 10});
          all += fmt::format(" {}K:{:.2f}", flying_kb, us);
        } catch (const Error&) {
          break;
        }
      }
      fmt::print("    {} blocks:{}\n", blocks, all);
    }
  }

  bool tune_;
  DeviceBytes pool_, sink_ = DeviceBytes(1024);
  double stream_ = 0, empty_us_ = 0;
  std::string json_;
};

void Bench::append(const std::string& name, int32_t T, KvDType dtype) {
  const int32_t H = 32, KH = 8, D = 128, width = (H + 2 * KH) * D;
  KvView kv{pool_.as(), 0, KH, {dtype, default_block_size(dtype), D, D}};
  kv.num_blocks = kPoolBytes / kv.block_bytes();
  DeviceBytes qkv(int64_t{T} * width * 2), angles(T * D * 4);
  fill_random(qkv.as(), true, T, width, nullptr, 4, 1.f, nullptr);
  CUDA_CHECK(cudaMemset(angles.as(), 0, T * D * 4));
  std::vector<int32_t> slots(T);
  std::mt19937 random(5);
  for (int32_t& s : slots)
    s = static_cast<int32_t>(random() % (kv.num_blocks * kv.format.block_size));
  DeviceBytes ds = to_device<int32_t>(slots);
  const TensorView all(qkv.as(), DType::bf16, {T, width});
  RopeStoreKvArgs args = {};
  args.q = all.slice_cols(0, H * D);
  args.k = all.slice_cols(H * D, KH * D);
  args.v = all.slice_cols((H + KH) * D, KH * D);
  args.num_heads = H;
  args.angles = ConstTensorView(angles.as(), DType::f32, {T, D / 2, 2});
  args.slots = {ds.as<int32_t>(), static_cast<size_t>(T)};
  args.kv = kv;
  const double us =
      graph_us([&](cudaStream_t s, int) { rope_store_kv({args}, {.stream = s}); }, 50);
  fmt::print("{:<26}{:>10.2f}   {:.2f} over the empty kernel\n", name, us, us - empty_us_);
  put(name, us, 0);
}

void Bench::blocks() {
  const KvFormat format = {KvDType::bf16, 16, 128, 128};
  std::vector<KvView> layers;
  for (int l = 0; l < 32; l++)
    layers.push_back({pool_.as() + l * int64_t{2048} * 8 * format.head_bytes(), 2048, 8, format});
  std::vector<BlockCopy> copies;
  for (int32_t i = 0; i < 64; i++) copies.push_back({i * 7, 1000 + i * 3});
  const double bytes = 2.0 * 32 * 64 * 8 * double(format.head_bytes());
  const double us =
      graph_us([&](cudaStream_t s, int) { copy_blocks(layers, copies, {.stream = s}); }, 20);
  fmt::print("{:<26}{:>10.2f}{:>9.2f}\n", "copy 64 blocks x 32", us, bytes / us * 1e-6);
  put("block_copy", us, bytes / us * 1e-6);
}

void run(Bench& bench) {
  if (!bench.once) bench.ceilings();
  const auto B64 = [](KvDType dtype, int32_t len) {
    return Shape{fmt::format("{} B64 {}k", name(dtype), len / 1024), 64, len, 32, 8, 128, dtype};
  };
  bench.line({"B1 32/8 1k", 1, 1024, 32, 8});
  bench.line({"B1 32/8 4k", 1, 4096, 32, 8});
  bench.line({"B1 32/8 131k", 1, 131072, 32, 8});
  bench.line({"B1 32/8 16k", 1, 16384, 32, 8});
  bench.line({"B1 32/8 24k", 1, 24576, 32, 8});
  bench.line({"B16 32/8 4k", 16, 4096, 32, 8});
  const double b64 = bench.line({"B64 32/8 4k", 64, 4096, 32, 8});
  const double b64_16k = bench.line({"B64 32/8 16k", 64, 16384, 32, 8});
  bench.line({"B256 32/8 1k", 256, 1024, 32, 8});
  bench.line({"B1 64/8 8k", 1, 8192, 64, 8});
  bench.line({"B32 64/8 4k", 32, 4096, 64, 8});
  bench.line({"MHA B64 4k", 64, 4096, 32, 32});
  bench.line({"MQA B1 131k", 1, 131072, 32, 1});
  bench.line({"MQA B64 4k", 64, 4096, 32, 1});
  bench.line({"MQA B64 16k", 64, 16384, 32, 1});
  bench.line({"MQA B16 4k", 16, 4096, 32, 1});
  bench.line({"MQA B32 4k", 32, 4096, 32, 1});
  bench.line({"hd64 32/8 B64 4k", 64, 4096, 32, 8, 64});
  bench.line({"hd256 16/4 B64 4k", 64, 4096, 16, 4, 256});
  const double s64 = bench.line({"B64 32/8 4k S64", 64, 4096, 32, 8, 128, KvDType::bf16, 64});
  bench.ratio("S16 against S64", s64 / b64);
  const double q4 = bench.line({"B64 32/8 4k q4", 64, 4096, 32, 8, 128, KvDType::bf16, 0, 4});
  bench.ratio("q_len 4 against 1", b64 / q4);
  for (KvDType dtype : {KvDType::int8, KvDType::int4, KvDType::fp8, KvDType::f16})
    bench.ratio(std::string(name(dtype)) + " against bf16",
                b64_16k / bench.line(B64(dtype, 16384)));
  bench.line({"int4 B1 4k", 1, 4096, 32, 8, 128, KvDType::int4});
  const Shape cascade = {
      "64 x (8k shared + 1k)", 64, 9216, 32, 8, 128, KvDType::bf16, 16, 1, 8192, true};
  Shape apart = cascade;
  apart.name = "the same, unshared", apart.prefix = 0, apart.aware = false;
  const double with = bench.line(cascade);
  bench.ratio("shared against unshared", bench.line(apart) / with);
  apart.name = "the same, in 32 columns", apart.aware = true;
  bench.line(apart);
  Shape less = cascade, less_apart = cascade;
  less.name = "64 x (2k shared + 6k)", less.len = 8192, less.prefix = 2048;
  less_apart.name = "64 x 8k", less_apart.len = 8192, less_apart.prefix = 0;
  less_apart.aware = false;
  bench.line(less);
  bench.line(less_apart);
  if (bench.once || !bench.only.empty()) return;
  bench.append("append T1 bf16", 1, KvDType::bf16);
  bench.append("append T64 bf16", 64, KvDType::bf16);
  bench.append("append T256 bf16", 256, KvDType::bf16);
  bench.append("append T256 int4", 256, KvDType::int4);
  bench.blocks();
}

}  // namespace
}  // namespace pagoda::cuda

int main(int argc, char** argv) {
  bool tune = false, once = false;
  std::string file, only;
  for (int i = 1; i < argc; i++) {
    const std::string flag = argv[i];
    if (flag == "--tune") {
      tune = true;
    } else if (flag == "--once") {
      once = true;
    } else if (flag == "--only" && i + 1 < argc) {
      only = argv[++i];
    } else if (flag == "--json" && i + 1 < argc) {
      file = argv[++i];
    } else {
      fmt::print(
          "usage: bench_attention [--only WORD] [--json FILE] [--tune] [--once]\n"
          "  --only   lines with that word; --tune: other blocks and ring sizes\n"
          "  --once   one launch a line, for a profiler\n");
      return 2;
    }
  }
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    fmt::print("bench_attention: no GPU here\n");
    return 4;
  }
  try {
    pagoda::cuda::Bench bench(tune);
    bench.only = only;
    bench.once = once;
    pagoda::cuda::run(bench);
    if (!file.empty()) std::ofstream(file) << bench.json() << "\n";
  } catch (const pagoda::Error& e) {
    fmt::print("bench_attention: {}\n", e.message());
    return 1;
  }
  return 0;
}
