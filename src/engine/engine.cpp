#include "engine/engine.h"

#include <algorithm>
#include <chrono>

#include "base/random.h"
#include "kv/audit.h"
#include "kv/planted_bug.h"

namespace pagoda {

namespace {

int64_t steady_now_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

EngineOptions checked(EngineOptions options) {
  if (!options.now_us) options.now_us = steady_now_us;
  const auto require = [](bool is_good, std::string_view what) {
    if (!is_good) throw Error("engine.bad_options", "{}", what);
  };
  require(options.max_model_len >= 2, "--max-model-len: expected at least 2");
  require(options.max_num_seqs >= 1, "--max-num-seqs: expected at least 1");
  require(options.max_num_batched_tokens >= options.max_num_seqs,
          "--max-num-batched-tokens: expected at least --max-num-seqs");
  require(options.overlap_depth == 0 || options.overlap_depth == 1, "overlap depth: 0 or 1");
  require(options.overlap_depth == 0 || options.kv_reuse == KvReuse::kept,
          "overlap depth 1 needs a KV cache that is kept");
  return options;
}

SchedulerOptions scheduler_options(const EngineOptions& options) {
  return {.max_num_seqs = options.max_num_seqs,
          .token_budget = options.max_num_batched_tokens,
          .max_model_len = options.max_model_len};
}

KvCacheOptions kv_options(const EngineOptions& options, KvCacheOptions kv) {
  if (options.kv_reuse == KvReuse::recomputed) kv.prefix_caching = false;
  return kv;
}

// Drawn once, at admission: a function of the engine's seed and the request's id.
uint64_t drawn_seed(uint64_t engine_seed, RequestId id) {
  const auto r =
      philox4x32({static_cast<uint32_t>(id), static_cast<uint32_t>(id >> 32), 0, 1},
                 {static_cast<uint32_t>(engine_seed), static_cast<uint32_t>(engine_seed >> 32)});
  return uint64_t{r[0]} << 32 | r[1];
}

}  // namespace

Engine::Engine(EngineOptions options, const KvCacheOptions& kv, Executor& executor)
    : options_(checked(std::move(options))),
      executor_(executor),
      kv_(kv_options(options_, kv)),
      scheduler_(scheduler_options(options_), kv_),
      requests_({.max_model_len = options_.max_model_len,
                 .eos_ids = options_.eos_ids,
                 .make_text = options_.make_text},
                scheduler_,
                kv_,
                stats_),
      request_limits_({.vocabulary = options_.vocabulary,
                       .max_model_len = options_.max_model_len,
                       .max_num_seqs = options_.max_num_seqs,
                       .max_logprobs = options_.max_logprobs,
                       .max_num_batched_tokens = options_.max_num_batched_tokens,
                       .kv = kv,
                       .max_kv_tokens = kv_.tokens_within(options_.max_num_batched_tokens,
                                                          options_.max_model_len)}),
      step_limits_(pagoda::step_limits(scheduler_options(options_), kv, options_.max_logprobs)),
      builder_(step_limits_, kv.block_size) {
  for (int32_t i = 0; i <= options_.overlap_depth; i++) slots_.emplace_back(step_limits_);
}

void Engine::submit(Request request) {
  if (requests_.find(request.id))
    throw Error("request.duplicate_id", "request {} is live already", request.id);
  if (std::ssize(scheduler_.waiting()) >= options_.max_num_waiting)
    throw Error("engine.queue_full",
                "{} requests are waiting, as many as --max-queue allows; try again later",
                scheduler_.waiting().size());
  const int32_t max_tokens = validate(request, request_limits_);
  const int64_t now_us = options_.now_us();
  const int64_t order_us = now_us + request.priority * options_.ageing_us;
  const uint64_t seed = request.sampling.seed.value_or(drawn_seed(options_.seed, request.id));
  requests_.add(std::move(request), max_tokens, seed, order_us, now_us);
  stats_.requests++;
}

bool Engine::cancel(RequestId id) {
  RequestState* request = requests_.find(id);
  if (request != nullptr) request->is_cancelled = true;
  return request != nullptr;
}

bool Engine::idle() const {
  return requests_.live().empty() && num_submitted_ == num_completed_;
}

void Engine::clear_prefix_cache() {
  kv_.clear_prefixes();
}

std::span<RequestOutput> Engine::step() {
  requests_.outputs().clear();
  cancel_flagged();
  const bool has_submitted = submit_step();
  const size_t num_out = num_submitted_ - num_completed_;
  if (num_out > static_cast<size_t>(options_.overlap_depth) || (!has_submitted && num_out > 0))
    complete_step();
  else if (!has_submitted && !requests_.live().empty())
    fail_stuck();
  end_turn();
  return requests_.outputs();
}

void Engine::cancel_flagged() {
  std::vector<RequestState*> cancelled;
  for (const auto& [id, state] : requests_.live()) {
    const std::atomic<bool>* flag = state->request.cancelled;
    if (planted(PlantedBug::cancel_ignored_while_waiting) &&
        state->sequences[0]->state == SequenceState::waiting)
      continue;
    if (state->is_cancelled || (flag != nullptr && flag->load(std::memory_order_relaxed)))
      cancelled.push_back(state.get());
  }
  for (RequestState* state : cancelled) requests_.cancel(*state);
}

// False when there was nothing to do.
bool Engine::submit_step() {
  StepSlot& slot = slots_[num_submitted_ % slots_.size()];
  scheduler_.schedule(options_.now_us(), slot.scheduled);
  stats_.preemptions += slot.scheduled.num_preempted;
  stats_.prompt_tokens += slot.scheduled.prompt_tokens;
  stats_.cached_tokens += slot.scheduled.cached_tokens;
  if (slot.scheduled.rows.empty()) return false;
  builder_.build(slot.scheduled, kv_.pending_step(), slot.input);
  kv_.step_submitted();
  requests_.step_submitted();
  num_submitted_++;
  stats_.computed_tokens += slot.scheduled.num_tokens;
  slot.failure.reset();
  try {
    slot.ticket = executor_.submit(slot.input);
  } catch (const Error& error) {
    slot.failure = error;
  } catch (const std::exception& error) {
    slot.failure = Error("engine.step_failed", "{}", error.what());
  }
  return true;
}

void Engine::complete_step() {
  StepSlot& slot = slots_[num_completed_ % slots_.size()];
  if (!slot.failure) {
    try {
      executor_.wait(slot.ticket, slot.result);
    } catch (const Error& error) {
      slot.failure = error;
    } catch (const std::exception& error) {
      slot.failure = Error("engine.step_failed", "{}", error.what());
    }
  }
  num_completed_++;
  kv_.step_returned();
  stats_.steps++;
  if (slot.failure)
    fail_step(slot, *slot.failure);
  else
    commit(slot);
  requests_.step_returned();  // states that ended in this step lived until here
}

void Engine::commit(const StepSlot& step) {
  for (const ScheduledTokens& row : step.scheduled.rows)
    if (row.sequence->state != SequenceState::finished || planted(PlantedBug::output_after_end))
      commit_row(row, step.result);
}

void Engine::commit_row(const ScheduledTokens& row, const StepResult& result) {
  Sequence& sequence = *row.sequence;
  RequestState& request = *sequence.request;
  const bool has_blocks = row.epoch == sequence.epoch;
  for (int32_t i = 0; i < row.num_samples; i++) {
    const SampledToken& sampled = result.tokens[row.first_sample_row + i];
    if (!sampled.has_nan && sampled.token >= 0 && sampled.token < options_.vocabulary) continue;
    requests_.fail_untrusted(request,
                             "engine.nan_logits",
                             "the model gave no number for a logit, or every token was banned");
    return;
  }
  if (has_blocks) kv_.commit(sequence.kv, sequence.tokens, row.end(), request.request.cache_salt);
  if (row.num_samples == 0) return;
  if (!request.is_forked) requests_.fork(request, has_blocks);
  const int64_t now_us = options_.now_us();
  std::vector<Sequence*> drawn_for = {&sequence};
  for (int32_t i = 1; i < row.num_samples; i++) drawn_for.push_back(request.sequences[i].get());
  for (int32_t i = 0; i < row.num_samples; i++) {
    const int32_t sample_row = row.first_sample_row + i;
    const int32_t num_logprobs = std::max(0, request.request.sampling.num_logprobs);
    std::span<const TokenValue> top = result.top_of(sample_row);
    top = top.first(std::min(top.size(), static_cast<size_t>(num_logprobs)));
    Sequence& next = *drawn_for[i];
    requests_.append(next, result.tokens[sample_row], top, now_us);
    if (options_.kv_reuse == KvReuse::recomputed && next.state == SequenceState::running)
      scheduler_.forget_computed(next);
  }
}

void Engine::fail_step(const StepSlot& step, const Error& error) {
  stats_.failed_steps++;
  for (const ScheduledTokens& row : step.scheduled.rows)
    if (row.sequence->state != SequenceState::finished)
      requests_.fail(*row.sequence->request, error.kind(), error.message());
}

// Nothing could be scheduled, nothing is out that could change that: the first in the order of
// service can never go on.
void Engine::fail_stuck() {
  const Sequence* stuck = nullptr;
  for (const auto* list : {&scheduler_.running(), &scheduler_.waiting()})
    for (const Sequence* sequence : *list)
      if (stuck == nullptr || is_before(*sequence, *stuck)) stuck = sequence;
  PG_CHECK(stuck != nullptr, "{} live requests, none listed", requests_.live().size());
  const BlockPool& pool = kv_.pool();
  requests_.fail(
      *stuck->request,
      "kv.capacity_exceeded",
      fmt::format("the request needs {} KV blocks for its {} tokens, and {} of {} can be "
                  "had; raise --kv-cache-memory-bytes",
                  kv_.blocks_of_sequence(stuck->num_tokens(), options_.max_num_batched_tokens),
                  stuck->num_tokens(),
                  pool.num_available(),
                  pool.num_blocks()));
}

void Engine::end_turn() {
  const BlockPool& pool = kv_.pool();
  stats_.num_running = std::ssize(scheduler_.running());
  stats_.num_waiting = std::ssize(scheduler_.waiting());
  stats_.blocks_used = pool.num_referenced();
  stats_.blocks_cached = pool.num_idle();
  stats_.blocks_free = pool.num_free();
  stats_.heartbeat_us = options_.now_us();
#ifndef NDEBUG
  std::vector<const SequenceKv*> tables;
  for (const auto& [id, state] : requests_.live())
    for (const auto& sequence : state->sequences) tables.push_back(&sequence->kv);
  const std::string wrong = audit(kv_, tables);
  PG_CHECK(wrong.empty(), "{}", wrong);
#endif
}

}  // namespace pagoda
