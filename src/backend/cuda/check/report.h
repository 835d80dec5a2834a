// What checks on a GPU say: Report counts cases and wrong ones, remembers the worst error of a
// group, and prints one line a group; compare_rows holds rows against float64.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace pagoda::cuda {

struct CaseError {
  double worst_row = 0;  // ‖out - ref‖ / ‖ref‖ of the worst row and head
  double worst_sum = 0;  // |log-sum-exp - ref|, of 1 or of |ref|
  int64_t not_finite = 0;
};

enum class RowBits : bool { f16, bf16 };

// got, want: [n][head_dim]; sums: [n].
CaseError compare_rows(std::span<const uint16_t> got,
                       RowBits bits,
                       std::span<const double> want,
                       std::span<const float> got_sums,
                       std::span<const double> want_sums);

class Report {
 public:
  void expect(bool good, const std::string& what);
  void remember(double error);                 // of the group
  void report(const std::string& group);       // prints the group's line, begins another
  int finish(const std::string& check) const;  // prints the count; the exit status

 private:
  int cases_ = 0, wrong_ = 0;
  double worst_ = 0;
};

}  // namespace pagoda::cuda
