#include "backend/cpu/machine_limits.h"

#include <gtest/gtest.h>

#include "backend/cpu/machine_limits_kernels.h"

namespace pagoda::cpu {
namespace {

TEST(MachineLimits, every_limit_is_found_at_the_least_and_the_best_instruction_set) {
  ThreadPool pool(1);
  for (const IsaLevel isa : {IsaLevel::v3, detected_isa()}) {
    const MachineLimits limits = measure_machine_limits(pool, isa, 0.01);
    EXPECT_GT(limits.read_bytes_per_s, 1e8) << name(isa);
    EXPECT_GT(limits.int8_ops_per_s, 1e9) << name(isa);
    EXPECT_GT(limits.f32_ops_per_s, 1e9) << name(isa);
    EXPECT_GT(limits.bf16_ops_per_s, 1e9) << name(isa);
    // No core does more than 4 dot products of 64 bytes in a cycle of 6 GHz: the work was done.
    EXPECT_LT(limits.int8_ops_per_s, 4 * 128 * 6e9) << name(isa);
    EXPECT_LT(limits.f32_ops_per_s, 4 * 32 * 6e9) << name(isa);
  }
}

TEST(MachineLimits, the_shortest_of_at_least_three_runs_counts) {
  int runs = 0;
  EXPECT_GE(shortest_time([&] { runs++; }, 2, 0), 0);
  EXPECT_EQ(runs, 3);
}

TEST(MachineLimits, reading_depends_on_every_byte) {
  if (supported_isas().empty()) GTEST_SKIP() << "this machine has none of the instruction sets";
  MachineLimitsKernels kernels;
  v3::fill(kernels);
  alignas(64) uint8_t data[1024] = {};
  EXPECT_EQ(kernels.read(data, sizeof data), 0);
  data[512] = 1;
  EXPECT_EQ(kernels.read(data, sizeof data), 1);
}

}  // namespace
}  // namespace pagoda::cpu
