// One simulated run of the engine: the real Engine, Scheduler and KvCache, a FakeExecutor, a
// virtual clock, and events drawn from a seed: bursts of requests that share prefixes,
// cancellations in every phase, several samples, tiny pools, steps that fail, NaN, clock jumps,
// stalled readers.
//
// One thread, no hidden time or randomness: one seed is one run. After every step the invariants of
// the engine are checked; the first that does not hold ends the run.
#pragma once

#include <cstdint>
#include <string>

namespace pagoda::simulation {

struct RunResult {
  std::string violation;  // "" or what did not hold, and when
  uint64_t log = 0;       // hash of everything that happened
  // How much of what was to be tested did happen.
  int64_t steps = 0;
  int64_t requests = 0;
  int64_t finished = 0;  // stop or length
  int64_t cancelled = 0;
  int64_t failed = 0;
  int64_t preemptions = 0;
  int64_t cached_tokens = 0;
  int64_t forks = 0;
  int64_t copies = 0;
  int64_t nans = 0;
  int64_t late_tokens = 0;  // steps with overlap that had any
};

RunResult run_seed(uint64_t seed);

}  // namespace pagoda::simulation
