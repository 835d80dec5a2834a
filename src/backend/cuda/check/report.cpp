#include "backend/cuda/check/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/half.h"

namespace pagoda::cuda {

CaseError compare_rows(std::span<const uint16_t> got,
                       RowBits bits,
                       std::span<const double> want,
                       std::span<const float> got_sums,
                       std::span<const double> want_sums) {
  CaseError e;
  const size_t D = want_sums.empty() ? 0 : want.size() / want_sums.size();
  for (size_t i = 0; i < want_sums.size(); i++) {
    double norm = 0, wrong = 0;
    for (size_t d = i * D; d < (i + 1) * D; d++) {
      const double x = bits == RowBits::bf16 ? bf16_to_f32(got[d]) : f16_to_f32(got[d]);
      if (!std::isfinite(x)) e.not_finite++;
      norm += want[d] * want[d], wrong += (x - want[d]) * (x - want[d]);
    }
    e.worst_row = std::max(e.worst_row, norm > 0 ? std::sqrt(wrong / norm) : std::sqrt(wrong));
    if (std::isinf(want_sums[i]) && std::isinf(got_sums[i])) continue;
    const double off = std::abs(got_sums[i] - want_sums[i]) / std::max(1.0, std::abs(want_sums[i]));
    if (!(off <= e.worst_sum)) e.worst_sum = off;
  }
  return e;
}

void Report::expect(bool good, const std::string& what) {
  cases_++;
  if (good) return;
  wrong_++;
  fmt::print("WRONG {}\n", what);
}

void Report::remember(double error) {
  worst_ = std::max(worst_, error);
}

void Report::report(const std::string& group) {
  fmt::print("{:<34} worst row error {:.1e}\n", group, worst_);
  worst_ = 0;
}

int Report::finish(const std::string& check) const {
  fmt::print("{}: {} cases, {} wrong\n", check, cases_, wrong_);
  if (cases_ == 0) fmt::print("{}: no such cases\n", check);
  return wrong_ > 0 || cases_ == 0;
}

}  // namespace pagoda::cuda
