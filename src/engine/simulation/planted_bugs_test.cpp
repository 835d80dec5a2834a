// The simulation finds every planted bug within 2,000 seeds; this program is built on a copy of kv
// and engine that has them, each behind its PlantedBug.
#include <gtest/gtest.h>

#include <cstdio>
#include <stdexcept>

#include "base/error.h"
#include "engine/simulation/simulation.h"
#include "kv/planted_bug.h"

namespace pagoda {

// Takes the place of the one in base: a failed PG_CHECK is a finding here, not the end.
void report_bug(const char* file, int line, const char* condition, const std::string& values) {
  throw std::runtime_error(fmt::format("{}:{}: {}; {}", file, line, condition, values));
}

namespace simulation {
namespace {

constexpr uint64_t kMaxSeeds = 2000;

class PlantedBugs : public testing::TestWithParam<int> {};

TEST_P(PlantedBugs, is_found) {
  active_planted_bug = static_cast<PlantedBug>(GetParam());
  std::string violation;
  uint64_t seed = 0;
  while (violation.empty() && seed < kMaxSeeds) violation = run_seed(++seed).violation;
  active_planted_bug = PlantedBug::none;
  std::printf("seed %ld: %s\n", long(seed), violation.c_str());
  EXPECT_NE(violation, "");
}

INSTANTIATE_TEST_SUITE_P(All, PlantedBugs, testing::Range(1, int(PlantedBug::count)));

TEST(WithoutPlantedBug, nothing_is_found) {
  for (uint64_t seed = 1; seed <= 50; seed++) EXPECT_EQ(run_seed(seed).violation, "");
}

}  // namespace
}  // namespace simulation
}  // namespace pagoda
