#include "engine/scheduler.h"

#include <algorithm>

#include "base/error.h"
#include "kv/planted_bug.h"

namespace pagoda {

namespace {

void insert_in_order(std::vector<Sequence*>& list, Sequence& sequence) {
  const auto place = std::ranges::upper_bound(
      list, &sequence, [](const Sequence* a, const Sequence* b) { return is_before(*a, *b); });
  list.insert(place, &sequence);
}

}  // namespace

void SchedulerOutput::clear() {
  rows.clear();
  num_tokens = num_sample_rows = num_preempted = prompt_tokens = cached_tokens = 0;
}

Scheduler::Scheduler(const SchedulerOptions& options, KvCache& kv) : options_(options), kv_(kv) {
  PG_CHECK(options.token_budget >= options.max_num_seqs && options.max_num_seqs > 0,
           "budget {} for {} sequences",
           options.token_budget,
           options.max_num_seqs);
}

void Scheduler::add_waiting(Sequence& sequence) {
  sequence.state = SequenceState::waiting;
  insert_in_order(waiting_, sequence);
}

void Scheduler::add_running(Sequence& sequence) {
  sequence.state = SequenceState::running;
  insert_in_order(running_, sequence);
}

void Scheduler::remove(Sequence& sequence) {
  std::erase(waiting_, &sequence);
  std::erase(running_, &sequence);
}

void Scheduler::schedule(int64_t now_us, SchedulerOutput& output) {
  output.clear();
  if (schedule_running(output) && output.num_preempted == 0) admit_waiting(now_us, output);
}

// Whether its next token can be computed before the steps that are out have returned: at most one
// token is unknown, it will be wanted whatever it turns out to be, and nothing on the host depends
// on its value.
bool Scheduler::is_ready(const Sequence& sequence) const {
  if (sequence.num_pending == 0) return true;
  const RequestState& request = *sequence.request;
  return sequence.num_pending == 1 && request.is_forked &&
         !request.request.sampling.has_penalties() &&
         sequence.num_generated + 1 < request.max_tokens &&
         sequence.num_tokens() < options_.max_model_len;
}

// False when something stood in the way: nobody after it gets anything in this step.
bool Scheduler::schedule_running(SchedulerOutput& output) {
  if (planted(PlantedBug::preempts_first_of_order) && running_.size() > 1 &&
      kv_.pool().num_available() == 0) {
    preempt(*running_.front());
    output.num_preempted++;
  }
  for (size_t i = 0; i < running_.size(); i++) {
    Sequence& sequence = *running_[i];
    if (!is_ready(sequence)) continue;
    // Everyone further down gets at least one token.
    const auto num_later = static_cast<int32_t>(running_.size() - i - 1);
    const int32_t budget = options_.token_budget - output.num_tokens - num_later;
    const int32_t num_tokens = std::min(sequence.num_tokens() - sequence.num_computed, budget);
    if (!make_room(sequence, num_tokens, output)) return false;
    give(sequence, num_tokens, output);
  }
  return true;
}

bool Scheduler::make_room(Sequence& sequence, int32_t num_tokens, SchedulerOutput& output) {
  while (!kv_.reserve(sequence.kv, sequence.num_computed, sequence.num_computed + num_tokens)) {
    if (kv_.awaits_blocks()) return false;
    if (running_.back() == &sequence) return false;
    preempt(*running_.back());
    output.num_preempted++;
  }
  return true;
}

void Scheduler::give(Sequence& sequence, int32_t num_tokens, SchedulerOutput& output) {
  PG_CHECK(num_tokens > 0, "{} tokens", num_tokens);
  ScheduledTokens row = {.sequence = &sequence,
                         .epoch = sequence.epoch,
                         .begin = sequence.num_computed,
                         .num_tokens = num_tokens,
                         .first_sample_row = output.num_sample_rows};
  if (row.end() == sequence.num_tokens()) {
    const RequestState& request = *sequence.request;
    row.num_samples = request.is_forked ? 1 : request.request.n;
    sequence.num_pending++;
  }
  sequence.num_computed = row.end();
  output.num_tokens += num_tokens;
  output.num_sample_rows += row.num_samples;
  output.rows.push_back(row);
}

int32_t Scheduler::seats(const Sequence& sequence) {
  return sequence.request->is_forked ? 1 : sequence.request->request.n;
}

int32_t Scheduler::num_seats_taken() const {
  int32_t taken = 0;
  for (const Sequence* sequence : running_) taken += seats(*sequence);
  return taken;
}

void Scheduler::admit_waiting(int64_t now_us, SchedulerOutput& output) {
  int32_t num_free_seats = options_.max_num_seqs - num_seats_taken();
  if (planted(PlantedBug::admits_beyond_max_seqs)) num_free_seats++;
  while (!waiting_.empty() && output.num_tokens < options_.token_budget) {
    Sequence& sequence = *waiting_.front();
    num_free_seats -= seats(sequence);
    if (num_free_seats < 0 || sequence.num_pending > 0) return;
    if (!admit(sequence, now_us, output)) return;
  }
}

bool Scheduler::admit(Sequence& sequence, int64_t now_us, SchedulerOutput& output) {
  RequestState& request = *sequence.request;
  const PrefixMatch match = kv_.match(sequence.tokens, request.request.cache_salt);
  // All of it must fit, with a block to spare for each sequence that is running: what is admitted
  // only to be preempted at once is work for nothing.
  if (!kv_.fits(match, sequence.num_tokens(), options_.token_budget, std::ssize(running_)))
    return false;
  waiting_.erase(waiting_.begin());
  add_running(sequence);
  kv_.adopt(sequence.kv, match);
  sequence.num_computed = match.num_tokens;
  if (request.cached_tokens < 0 || planted(PlantedBug::recompute_counted_as_hit)) {
    request.cached_tokens = match.num_tokens;
    output.cached_tokens += match.num_tokens;
    output.prompt_tokens += static_cast<int32_t>(request.request.prompt.size());
  }
  if (request.timings.admitted_us == 0) request.timings.admitted_us = now_us;
  const int32_t num_tokens = std::min(sequence.num_tokens() - sequence.num_computed,
                                      options_.token_budget - output.num_tokens);
  const bool has_room =
      kv_.reserve(sequence.kv, sequence.num_computed, sequence.num_computed + num_tokens);
  PG_CHECK(has_room, "no room for {} tokens that fit", num_tokens);
  give(sequence, num_tokens, output);
  return true;
}

void Scheduler::preempt(Sequence& sequence) {
  std::erase(running_, &sequence);
  kv_.release(sequence.kv);
  sequence.num_computed = 0;
  if (!planted(PlantedBug::stale_row_committed)) sequence.epoch++;
  if (planted(PlantedBug::seed_redrawn_on_resume))
    sequence.sampler = Sampler(sequence.sampler.params(),
                               sequence.request->seed + 1,
                               static_cast<uint32_t>(sequence.choice),
                               sequence.tokens);
  if (!planted(PlantedBug::preempted_never_resumed)) add_waiting(sequence);
}

void Scheduler::forget_computed(Sequence& sequence) {
  kv_.release(sequence.kv);
  kv_.adopt(sequence.kv, {});
  sequence.num_computed = 0;
  sequence.epoch++;
}

}  // namespace pagoda
