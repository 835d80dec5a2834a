// What this machine can do at most, measured: bytes read from memory and arithmetic of each kind,
// all threads of a pool together. Figures of programs stand beside these.
//
// The best of repeated runs counts: a limit is what was seen once, and other work on the machine
// only lowers it. With one thread CPU time is what counts, so that a busy machine disturbs less.
//   const MachineLimits limits = cpu::measure_machine_limits(pool, cpu::chosen_isa());
#pragma once

#include <functional>

#include "backend/cpu/isa.h"
#include "base/threads.h"

namespace pagoda::cpu {

struct MachineLimits {
  double read_bytes_per_s = 0;  // from memory: a working set far beyond the caches
  double int8_ops_per_s = 0;    // a multiplication and an addition are two operations
  double f32_ops_per_s = 0;
  double bf16_ops_per_s = 0;  // of f32 where the instruction set has no bf16 dot product
};

// Takes about `for_s` seconds, and 256 MiB while it runs.
MachineLimits measure_machine_limits(ThreadPool& pool, IsaLevel isa, double for_s = 1);

// The shortest of repeated runs of `work` within about `for_s` seconds.
double shortest_time(const std::function<void()>& work, int num_threads, double for_s = 0.35);

// Runnable processes over the last minute; infinite where the system does not say.
double load_average();
constexpr double kIdleLoad = 0.3;  // above it figures are disturbed

}  // namespace pagoda::cpu
