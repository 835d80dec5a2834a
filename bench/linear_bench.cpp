// Speed of the CPU backend's matrix products, beside what the machine can do in the same run.
//
// For each weight type at real shapes and 1, 4, 8 and 512 rows: time, weight bytes per second as a
// fraction of the measured read bandwidth, and operations per second as a fraction of the measured
// int8 dot-product peak. Weights are read from memory, not from caches: a product goes round copies
// of its matrix that together exceed them. Fractions are left out on a busy machine unless
// --anyway.
// With one thread CPU time is what counts, so that a busy machine disturbs less.
//   linear_bench [--anyway] [--threads N] [type …]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/machine_limits.h"
#include "base/threads.h"

namespace {

using namespace pagoda;  // NOLINT: a program's main file
using cpu::IsaLevel;

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Shape {
  DType dtype;
  int64_t rows, cols;
};
const std::vector<Shape> kShapes = {
    {DType::q4_1, 3072, 576},    // SmolLM2-135M: gate and up
    {DType::q4_1, 576, 1536},    // down
    {DType::q8_0, 49152, 576},   // output head
    {DType::q8_0, 262144, 640},  // Gemma 3 270M: output head
    {DType::q5_0, 4096, 640},    // gate and up
    {DType::q6_k, 640, 2048},    // down
    {DType::q4_k, 640, 2048},
    {DType::q8_0, 11264, 2048},  // TinyLlama-1.1B: gate and up
    {DType::q4_0, 11264, 2048},
    {DType::q4_1, 11264, 2048},
    {DType::q5_0, 11264, 2048},
    {DType::q5_1, 11264, 2048},
    {DType::q4_k, 11264, 2048},
    {DType::q5_k, 11264, 2048},
    {DType::q6_k, 11264, 2048},
    {DType::bf16, 11264, 2048},
    {DType::f16, 11264, 2048},
    {DType::f32, 11264, 2048},
};

// Bytes whose f16 scales are all finite: only time is looked at.
std::vector<std::byte> some_bytes(int64_t count) {
  std::vector<std::byte> bytes(count);
  uint64_t state = 1;
  for (std::byte& b : bytes) {
    state = state * 6364136223846793005 + 1442695040888963407;
    b = std::byte((state >> 56) & 0x3b);
  }
  return bytes;
}

struct Machine {
  int threads;
  cpu::MachineLimits limits;
  bool quiet;
};

void run_shape(Backend& backend, const Machine& machine, const Shape& s) {
  constexpr int64_t kBeyondCaches = int64_t{96} << 20;
  const std::vector<std::byte> source = some_bytes(s.rows * bytes_of(s.dtype, s.cols));
  const ConstTensorView tensor(source.data(), s.dtype, {s.rows, s.cols});
  const int64_t bytes = backend.packed_bytes(s.dtype, s.rows, s.cols);
  std::vector<Weight> weights;
  const double begin = seconds();
  for (int64_t total = 0; total < kBeyondCaches; total += bytes)
    weights.push_back(backend.pack(tensor));
  const double packed = bytes * weights.size() / (seconds() - begin);
  std::printf("%-5s %6ld x %4ld  pack %.2f GB/s\n",
              std::string(name(s.dtype)).c_str(),
              long(s.rows),
              long(s.cols),
              packed / 1e9);
  for (int64_t tokens : {1, 4, 8, 512}) {
    if (tokens * s.rows > 64'000'000) continue;
    std::vector<float> x(tokens * s.cols, 0.5f), out(tokens * s.rows);
    const TensorView view(reinterpret_cast<std::byte*>(out.data()), DType::f32, {tokens, s.rows});
    const ConstTensorView rows(
        reinterpret_cast<const std::byte*>(x.data()), DType::f32, {tokens, s.cols});
    size_t next = 0;
    const double time = cpu::shortest_time(
        [&] {
          const Weight* weight = &weights[next++ % weights.size()];
          backend.linear({.x = rows, .weights = std::span(&weight, 1), .out = view});
        },
        machine.threads);
    const double rate = bytes / time, ops = 2.0 * tokens * s.rows * s.cols / time;
    std::printf("  T %3ld  %9.1f us  %6.1f GB/s", long(tokens), time * 1e6, rate / 1e9);
    if (machine.quiet) std::printf(" %4.0f %%", 100 * rate / machine.limits.read_bytes_per_s);
    std::printf("  %7.0f Gop/s", ops / 1e9);
    if (machine.quiet) std::printf(" %4.0f %%", 100 * ops / machine.limits.int8_ops_per_s);
    std::printf("\n");
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> types;
  bool anyway = false;
  int threads = default_num_threads();
  for (int i = 1; i < argc; i++) {
    if (std::strcmp(argv[i], "--anyway") == 0)
      anyway = true;
    else if (std::strcmp(argv[i], "--threads") == 0 && i + 1 < argc)
      threads = std::atoi(argv[++i]);
    else
      types.push_back(argv[i]);
  }
  const double load = cpu::load_average();
  const IsaLevel isa = cpu::chosen_isa();
  auto backend = cpu::make_cpu_backend({.num_threads = threads, .isa = isa});
  backend->reserve_workspace({.max_tokens = 512, .max_cols = 4096, .max_rows = 1 << 18});
  ThreadPool pool(threads);
  const Machine machine{
      threads, cpu::measure_machine_limits(pool, isa), anyway || load < cpu::kIdleLoad};
  std::printf("%s: reads %.1f GB/s, int8 %.0f Gop/s, load %.1f%s\n",
              backend->name().c_str(),
              machine.limits.read_bytes_per_s / 1e9,
              machine.limits.int8_ops_per_s / 1e9,
              load,
              machine.quiet ? "" : " (busy: no fractions)");
  for (const Shape& s : kShapes)
    if (types.empty() || std::find(types.begin(), types.end(), name(s.dtype)) != types.end())
      run_shape(*backend, machine, s);
}
