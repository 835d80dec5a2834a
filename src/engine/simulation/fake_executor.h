// FakeExecutor: an Executor without a model that tells on the engine. Each KV slot holds a record
// (what it should hold is a hash of the tokens so far, and the position); everything is read and
// written through the slot mapping and block tables of the step, so a wrong, stale, shared or early
// freed block shows in the tokens, and mostly at once as a violation.
//
// Steps run when they are submitted or, to be unkind, only when they are waited for. Faults are
// injected by the simulation: a step that fails at either place, a record that turns into NaN.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "engine/executor.h"

namespace pagoda::simulation {

struct FakeKv {
  int32_t block_size = 0;
  int32_t num_blocks = 0;
  std::vector<int32_t> windows;
};

enum class RunAt : uint8_t { submit, wait };

class FakeExecutor final : public Executor {
 public:
  FakeExecutor(const FakeKv& kv, RunAt run_at);

  Ticket submit(const StepInput& input) override;
  void wait(Ticket ticket, StepResult& result) override;

  // Faults of the next step that is submitted.
  bool fails_at_submit = false;
  bool fails_at_wait = false;
  int32_t poison_row = -1;  // the record that this token row writes
  // Looks at each step before it runs.
  std::function<void(const StepInput&)> on_submit;

  const std::string& violation() const { return violation_; }
  std::span<const StepInput* const> out() const { return out_; }
  // Poison (0: none) in any slot of `block`, of any group.
  bool has_poison(int32_t block, const std::vector<int32_t>& poisons) const;
  // Poisons that sequences of the last returned step saw.
  struct SeenPoison {
    const StepInput* input;
    int32_t seq;
    int32_t poison;
  };
  const std::vector<SeenPoison>& seen_poisons() const { return seen_poisons_; }
  uint64_t log() const { return log_; }  // of all inputs and results

 private:
  struct Record {
    uint64_t hash = 0;  // 0: not written
    int32_t position = -1;
    int32_t poison = 0;
  };
  struct Step {
    Ticket ticket = 0;
    const StepInput* input = nullptr;
    bool fails = false;
    int32_t poison_row = -1;
    bool has_run = false;
    std::vector<SampledToken> tokens;
    std::vector<SeenPoison> seen_poisons;
  };
  void run(Step& step);
  void note_failure(const StepInput& input);
  void prepare_blocks(const StepInput& input);
  bool builds_on_failure(const StepInput& input, int32_t seq) const;
  void write_row(Step& step, int32_t seq, int32_t t, int32_t token);
  SampledToken sample_row(Step& step, int32_t row);
  Record& record_at(const StepInput& input, int32_t group, int32_t seq, int32_t position);
  void fail(const std::string& what);

  FakeKv kv_;
  RunAt run_at_;
  std::vector<std::vector<Record>> records_;  // [groups][N * S]
  std::deque<Step> steps_;
  std::vector<const StepInput*> out_;
  // Blocks that steps which failed were to write: whatever builds on them is to be thrown away.
  std::set<int32_t> undefined_blocks_;
  std::vector<SampledToken> last_tokens_;  // of the last step that ran
  std::vector<SeenPoison> seen_poisons_;
  std::string violation_;
  Ticket next_ticket_ = 0;
  int32_t next_poison_ = 1;
  uint64_t log_ = 0;
};

}  // namespace pagoda::simulation
