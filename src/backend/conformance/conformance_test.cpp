// The machinery itself: the reference passes every case against itself, and what is wrong is found.
#include "backend/conformance/conformance.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>

#include "backend/reference.h"

namespace pagoda::conformance {
namespace {

constexpr KvDType kAll[] = {
    KvDType::f32, KvDType::f16, KvDType::bf16, KvDType::fp8, KvDType::int8, KvDType::int4};

Session reference_session() {
  static const uint64_t seed = [] {
    const char* given = std::getenv("PAGODA_SEED");
    const uint64_t drawn = given ? std::strtoull(given, nullptr, 10) : std::random_device{}();
    fmt::print("conformance: PAGODA_SEED={}\n", drawn);
    return drawn;
  }();
  return Session({.make = [](int) { return make_reference_backend(); }, .thread_counts = {1}},
                 seed);
}

TEST(Conformance, the_reference_agrees_with_itself_in_every_case) {
  Session session = reference_session();
  for (const Case& a_case : all_cases({std::begin(kAll), std::end(kAll)}))
    for (const std::string& failure : session.run(a_case))
      ADD_FAILURE() << a_case.name << ": " << failure;
}

// An operation that adds `error` to one element of the device's output; `row_of_call` makes it
// depend on where a row stands in its call.
std::vector<std::string> failures_with(float error, bool only_in_first_row_of_a_call) {
  Session session = reference_session();
  return session.run(
      {"wrong", [&](Session& s) {
         Array x = s.activations(8, 16), out = s.output(8, 16);
         s.check({.what = "copy",
                  .rows = 8,
                  .call =
                      [&](Backend&, Side side, int64_t begin, int64_t end) {
                        for (int64_t r = begin; r < end; r++)
                          for (int64_t c = 0; c < 16; c++)
                            out.on(side).row<float>(r)[c] = x.on(side).row<float>(r)[c];
                        if (side == Side::device && (!only_in_first_row_of_a_call || begin != 0))
                          out.on(side).row<float>(begin)[3] += error;
                      },
                  .outputs = {&out},
                  .tolerance = {1e-3, 1e-2}});
       }});
}

TEST(Conformance, what_f16_cannot_hold_counts_as_infinite) {
  EXPECT_EQ(within_range(DType::f16, -96875.f), within_range(DType::f16, -INFINITY));
  EXPECT_NE(within_range(DType::f16, 65504.f), within_range(DType::f16, INFINITY));
  EXPECT_TRUE(std::isnan(within_range(DType::f16, NAN)));
  EXPECT_EQ(within_range(DType::bf16, 96875.f), 96875.f);
}

TEST(Conformance, an_exact_result_passes) {
  EXPECT_TRUE(failures_with(0, false).empty());
}

TEST(Conformance, an_error_above_the_tolerance_is_found) {
  EXPECT_FALSE(failures_with(0.1f, false).empty());
}

TEST(Conformance, a_result_that_depends_on_the_call_is_found_however_small) {
  EXPECT_FALSE(failures_with(1e-5f, true).empty());
}

TEST(Conformance, an_element_that_is_not_written_is_found) {
  EXPECT_FALSE(failures_with(std::numeric_limits<float>::quiet_NaN(), false).empty());
}

}  // namespace
}  // namespace pagoda::conformance
