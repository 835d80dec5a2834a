#include "backend/cpu/isa.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "backend/cpu/cpu_backend.h"
#include "base/error.h"

namespace pagoda::cpu {
namespace {

class IsaChoice : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const char* value = std::getenv("PAGODA_CPU_ISA")) before_ = value;
  }
  void TearDown() override { setenv("PAGODA_CPU_ISA", before_.c_str(), 1); }
  std::string before_;
};

TEST_F(IsaChoice, an_unset_variable_gives_the_best_level) {
  unsetenv("PAGODA_CPU_ISA");
  EXPECT_EQ(chosen_isa(), detected_isa());
}

TEST_F(IsaChoice, every_level_of_the_machine_can_be_asked_for) {
  for (const IsaLevel level : supported_isas()) {
    setenv("PAGODA_CPU_ISA", std::string(name(level)).c_str(), 1);
    EXPECT_EQ(chosen_isa(), level);
  }
}

TEST_F(IsaChoice, an_unknown_name_is_refused_with_the_names_that_would_work) {
  setenv("PAGODA_CPU_ISA", "v5", 1);
  try {
    chosen_isa();
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), "cpu.bad_isa");
    EXPECT_NE(error.message().find("v3"), std::string::npos);
  }
}

TEST(Isa, avx512_does_not_imply_avx_vnni) {
  const CpuFeatures skylake{.v3 = true, .avx512 = true};
  EXPECT_TRUE(supports(skylake, IsaLevel::v4));
  EXPECT_FALSE(supports(skylake, IsaLevel::v3_avxvnni));
  EXPECT_FALSE(supports(skylake, IsaLevel::v4_vnni));
}

TEST(Isa, the_backend_says_its_level_and_threads) {
  EXPECT_EQ(make_cpu_backend({.num_threads = 2, .isa = IsaLevel::v3})->name(),
            "cpu (v3, 2 threads)");
}

}  // namespace
}  // namespace pagoda::cpu
