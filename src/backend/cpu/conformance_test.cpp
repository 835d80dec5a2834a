// The CPU backend at every instruction set of this machine against the reference:
// backend/conformance. PAGODA_SEED repeats a run.
#include "backend/conformance/conformance.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <string>

#include "backend/cpu/cpu_backend.h"

namespace pagoda::cpu {
namespace {

using conformance::Case;

uint64_t seed_of_run() {
  static const uint64_t seed = [] {
    const char* given = std::getenv("PAGODA_SEED");
    const uint64_t seed = given ? std::strtoull(given, nullptr, 10) : std::random_device{}();
    fmt::print("conformance: PAGODA_SEED={}\n", seed);
    return seed;
  }();
  return seed;
}

// Families of operations whose kernels stand: add "linear", "attention", "rope_store_kv" with them.
bool stands(const Case& a_case) {
  constexpr std::string_view kStanding[] = {"none_yet"};
  for (const std::string_view family : kStanding)
    if (a_case.name.starts_with(family)) return true;
  return std::getenv("PAGODA_ALL_CASES") != nullptr;
}

struct Row {
  IsaLevel isa;
  Case a_case;
};

std::vector<Row> all_rows() {
  std::vector<Row> rows;
  const auto cases = conformance::all_cases(
      {KvDType::f32, KvDType::f16, KvDType::bf16, KvDType::int8, KvDType::int4});
  for (const IsaLevel isa : supported_isas())
    for (const Case& a_case : cases)
      if (stands(a_case)) rows.push_back({isa, a_case});
  return rows;
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(CpuConformance);
class CpuConformance : public ::testing::TestWithParam<Row> {};

TEST_P(CpuConformance, agrees_with_the_reference) {
  const IsaLevel isa = GetParam().isa;
  conformance::Session session(
      {.make =
           [isa](int threads) { return make_cpu_backend({.num_threads = threads, .isa = isa}); }},
      seed_of_run());
  for (const std::string& failure : session.run(GetParam().a_case)) ADD_FAILURE() << failure;
}

std::string name_of(const ::testing::TestParamInfo<Row>& row) {
  std::string text = std::string(name(row.param.isa)) + "_" + row.param.a_case.name;
  for (char& c : text)
    if (c == '-') c = '_';
  return text;
}

INSTANTIATE_TEST_SUITE_P(Isa, CpuConformance, ::testing::ValuesIn(all_rows()), name_of);

}  // namespace
}  // namespace pagoda::cpu
