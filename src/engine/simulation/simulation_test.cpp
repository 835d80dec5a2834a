// 300 seeds of the simulation, or PAGODA_SIM_SEEDS of them (--seeds N), from PAGODA_SIM_FIRST on.
#include "engine/simulation/simulation.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace pagoda::simulation {
namespace {

uint64_t number_from(const char* variable, uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

TEST(Simulation, holds_every_invariant_for_every_seed) {
  const uint64_t first = number_from("PAGODA_SIM_FIRST", 1);
  const uint64_t num_seeds = number_from("PAGODA_SIM_SEEDS", 300);
  RunResult all;
  for (uint64_t seed = first; seed < first + num_seeds; seed++) {
    const RunResult run = run_seed(seed);
    ASSERT_EQ(run.violation, "") << "seed " << seed;
    all.steps += run.steps;
    all.requests += run.requests;
    all.finished += run.finished;
    all.cancelled += run.cancelled;
    all.failed += run.failed;
    all.preemptions += run.preemptions;
    all.cached_tokens += run.cached_tokens;
    all.forks += run.forks;
    all.copies += run.copies;
    all.nans += run.nans;
    all.late_tokens += run.late_tokens;
  }
  std::printf(
      "%ld seeds: %ld steps, %ld requests, %ld choices finished, %ld cancelled, %ld failed\n",
      long(num_seeds),
      long(all.steps),
      long(all.requests),
      long(all.finished),
      long(all.cancelled),
      long(all.failed));
  std::printf(
      "%ld preemptions, %ld cached tokens, %ld forks, %ld copies, %ld NaN, %ld late steps\n",
      long(all.preemptions),
      long(all.cached_tokens),
      long(all.forks),
      long(all.copies),
      long(all.nans),
      long(all.late_tokens));
  if (num_seeds < 300) return;
  // The events did happen.
  EXPECT_GT(all.finished, all.requests / 2);
  EXPECT_GT(all.cancelled, 300);
  EXPECT_GT(all.failed, 300);
  EXPECT_GT(all.preemptions, 300);
  EXPECT_GT(all.cached_tokens, 3000);
  EXPECT_GT(all.forks, 300);
  EXPECT_GT(all.copies, 100);
  EXPECT_GT(all.nans, 100);
  EXPECT_GT(all.late_tokens, 1000);
}

TEST(Simulation, equal_seeds_give_equal_logs) {
  for (uint64_t seed = 1; seed <= 40; seed++)
    ASSERT_EQ(run_seed(seed).log, run_seed(seed).log) << "seed " << seed;
}

TEST(Simulation, different_seeds_give_different_logs) {
  EXPECT_NE(run_seed(1).log, run_seed(2).log);
}

}  // namespace
}  // namespace pagoda::simulation

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc == 3 && std::string_view(argv[1]) == "--seeds") setenv("PAGODA_SIM_SEEDS", argv[2], 1);
  return RUN_ALL_TESTS();
}
