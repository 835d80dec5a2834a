// Scheduler: who gets how many tokens in the next step, and who gives up blocks for it.
//
// No phases: each sequence gets min(num_tokens - num_computed, what the budget leaves); chunked
// prefill, prefix hits and resumption are that one subtraction. Running sequences come first, in
// the order of service (is_before); when blocks are missing the last of the order is preempted (its
// blocks released, everything computed again later), never the first, and then nobody is admitted
// in the same step. The last itself keeps what it has and waits, as does anyone while a step is out
// that will give blocks back; nobody after it is scheduled in that step.
// Sequences belong to the RequestTable; the lists here only point at them.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/sequence.h"
#include "kv/kv_cache.h"

namespace pagoda {

struct SchedulerOptions {
  int32_t max_num_seqs = 0;
  int32_t token_budget = 0;  // of a step, >= max_num_seqs
  int32_t max_model_len = 0;
};

// One sequence's part of a step.
struct ScheduledTokens {
  Sequence* sequence = nullptr;
  uint32_t epoch = 0;
  int32_t begin = 0;  // first position
  int32_t num_tokens = 0;
  int32_t num_samples = 0;  // tokens drawn after its last row: 0, 1, or n when the prompt is done
  int32_t first_sample_row = 0;
  int32_t end() const { return begin + num_tokens; }
};

struct SchedulerOutput {
  std::vector<ScheduledTokens> rows;
  int32_t num_tokens = 0;
  int32_t num_sample_rows = 0;
  int32_t num_preempted = 0;
  int32_t prompt_tokens = 0;  // of requests that got blocks for the first time
  int32_t cached_tokens = 0;  // of those, found in the prefix index
  void clear();
};

class Scheduler {
 public:
  Scheduler(const SchedulerOptions& options, KvCache& kv);

  void add_waiting(Sequence& sequence);
  void add_running(Sequence& sequence);  // one that has blocks: the child of a fork
  void remove(Sequence& sequence);       // from its list, if it is in one
  // Fills `output`. `now_us` is noted where a request first gets blocks.
  void schedule(int64_t now_us, SchedulerOutput& output);
  // Gives up a running sequence's blocks; it waits, and starts from the beginning.
  void preempt(Sequence& sequence);
  // Gives up its blocks, but goes on running (KvReuse::recomputed).
  void forget_computed(Sequence& sequence);

  const std::vector<Sequence*>& waiting() const { return waiting_; }
  const std::vector<Sequence*>& running() const { return running_; }

 private:
  bool is_ready(const Sequence& sequence) const;
  bool make_room(Sequence& sequence, int32_t num_tokens, SchedulerOutput& output);
  bool schedule_running(SchedulerOutput& output);
  void admit_waiting(int64_t now_us, SchedulerOutput& output);
  bool admit(Sequence& sequence, int64_t now_us, SchedulerOutput& output);
  void give(Sequence& sequence, int32_t num_tokens, SchedulerOutput& output);
  int32_t num_seats_taken() const;
  static int32_t seats(const Sequence& sequence);

  SchedulerOptions options_;
  KvCache& kv_;
  std::vector<Sequence*> waiting_;  // both in the order of service
  std::vector<Sequence*> running_;
};

}  // namespace pagoda
