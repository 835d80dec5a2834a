// The CPU backend at every instruction set of this machine against the reference:
// backend/conformance. Inputs are fresh in every run; PAGODA_SEED repeats those of another.
#include "backend/conformance/conformance.h"

#include <gtest/gtest.h>

#include <algorithm>
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

// A family of cases, and the levels at which its operations have kernels of their own
// (CMakeLists.txt): what another level would run is the same code.
struct Family {
  std::string_view prefix;
  std::vector<IsaLevel> levels;
};

std::vector<Family> families() {
  using enum IsaLevel;
  const std::vector<IsaLevel> two = {v3, v4}, all = {v3, v3_avxvnni, v4, v4_vnni, v4_bf16};
  return {{"norm", two},
          {"activation", two},
          {"rope_angles", {v3}},
          {"embed", all},
          {"linear", all},
          {"rope_store_kv", {v3, v4, v4_bf16}},
          {"copy_and_zero_blocks", {v3, v4, v4_bf16}},
          {"attention", {v3, v4, v4_bf16}},
          {"gather_rows", {v3}},
          {"process_logits", {v3}},
          {"sample", two}};
}

bool is_run_at(const Case& a_case, IsaLevel isa) {
  for (const Family& family : families())
    if (a_case.name.starts_with(family.prefix))
      return std::count(family.levels.begin(), family.levels.end(), isa) > 0;
  return true;  // a family that is not listed: at every level
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
      if (is_run_at(a_case, isa)) rows.push_back({isa, a_case});
  return rows;
}

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
