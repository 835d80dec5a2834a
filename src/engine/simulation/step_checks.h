// StepChecks: what must hold of every step that the engine submits, seen from outside: budgets,
// rows that belong to sequences, blocks that are theirs to write, nothing taken from a step that is
// out.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "engine/simulation/fake_executor.h"

namespace pagoda::simulation {

class StepChecks {
 public:
  StepChecks(const Engine& engine, const FakeExecutor& executor)
      : engine_(engine), executor_(executor) {}

  void check(const StepInput& input);
  // Blocks that a step which is out reads or writes must not be free.
  void check_still_there(const StepInput& input);
  // Where a request's first row began: its cached tokens.
  std::optional<int32_t> first_position(RequestId id) const;

  // Whose rows those of sequence `seq` were.
  RequestId request_of(const StepInput& input, int32_t seq) const;

  std::pair<RequestId, int32_t> first_in_order;  // running, before the step; id 0: none
  int64_t num_forked_steps = 0, num_copies = 0, num_late_steps = 0;
  const std::string& violation() const { return violation_; }

 private:
  void check_row(const StepInput& input, int32_t b);
  void check_blocks(const StepInput& input);
  void check_first_of_order();
  const Sequence* owner_of_row(const StepInput& input, int32_t b) const;
  void fail(const std::string& what);

  const Engine& engine_;
  const FakeExecutor& executor_;
  std::map<RequestId, int32_t> first_positions_;
  std::map<const StepInput*, std::vector<RequestId>> requests_;  // by sequence
  std::string violation_;
};

}  // namespace pagoda::simulation
