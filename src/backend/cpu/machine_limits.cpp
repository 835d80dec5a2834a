#include "backend/cpu/machine_limits.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <limits>
#include <vector>

#include "backend/cpu/context.h"
#include "backend/cpu/machine_limits_kernels.h"
#include "base/buffer.h"

namespace pagoda::cpu {
namespace {

constexpr int64_t kReadBytes = int64_t{256} << 20;
constexpr int64_t kReadUnit = 4096;
constexpr int64_t kSteps = 500'000;                         // some milliseconds
constexpr double kReadShare = 0.4, kArithmeticShare = 0.2;  // of the time

MachineLimitsKernels kernels_for(IsaLevel level) {
  MachineLimitsKernels kernels;
  switch (level) {
    case IsaLevel::v3:
      v3::fill(kernels);
      break;
    case IsaLevel::v3_avxvnni:
      v3_avxvnni::fill(kernels);
      break;
    case IsaLevel::v4:
      v4::fill(kernels);
      break;
    case IsaLevel::v4_vnni:
      v4_vnni::fill(kernels);
      break;
    case IsaLevel::v4_bf16:
      v4_bf16::fill(kernels);
      break;
  }
  return kernels;
}

double thread_cpu_seconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return double(now.tv_sec) + 1e-9 * double(now.tv_nsec);
}

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double read_bandwidth(ThreadPool& pool, const MachineLimitsKernels& kernels, double for_s) {
  HostAllocator allocator;
  const Buffer data = allocator.allocate(kReadBytes, MemoryTag::workspace);
  std::memset(data.data(), 1, kReadBytes);
  std::vector<int64_t> results(size_t(pool.size()) * 8);
  const double time = shortest_time(
      [&] {
        pool.run([&](int thread) {
          const Range part = share(kReadBytes / kReadUnit, thread, pool.size());
          results[size_t(thread) * 8] = kernels.read(data.as<uint8_t>() + part.begin * kReadUnit,
                                                     (part.end - part.begin) * kReadUnit);
        });
      },
      pool.size(),
      for_s);
  return double(kReadBytes) / time;
}

double arithmetic_peak(ThreadPool& pool, ArithmeticLoop loop, double for_s) {
  std::vector<double> ops(size_t(pool.size()) * 8);
  const double time =
      shortest_time([&] { pool.run([&](int thread) { ops[size_t(thread) * 8] = loop(kSteps); }); },
                    pool.size(),
                    for_s);
  return ops[0] * pool.size() / time;
}

}  // namespace

MachineLimits measure_machine_limits(ThreadPool& pool, IsaLevel isa, double for_s) {
  const MachineLimitsKernels kernels = kernels_for(isa);
  return {.read_bytes_per_s = read_bandwidth(pool, kernels, kReadShare * for_s),
          .int8_ops_per_s = arithmetic_peak(pool, kernels.int8, kArithmeticShare * for_s),
          .f32_ops_per_s = arithmetic_peak(pool, kernels.f32, kArithmeticShare * for_s),
          .bf16_ops_per_s = arithmetic_peak(pool, kernels.bf16, kArithmeticShare * for_s)};
}

double shortest_time(const std::function<void()>& work, int num_threads, double for_s) {
  const auto clock = num_threads == 1 ? thread_cpu_seconds : seconds;
  double shortest = std::numeric_limits<double>::infinity();
  const double until = seconds() + for_s;
  for (int i = 0; i < 3 || seconds() < until; i++) {
    const double begin = clock();
    work();
    shortest = std::min(shortest, clock() - begin);
  }
  return shortest;
}

double load_average() {
  double load = 0;
  return getloadavg(&load, 1) == 1 ? load : std::numeric_limits<double>::infinity();
}

}  // namespace pagoda::cpu
