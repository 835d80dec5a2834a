// Engine: the loop. Requests in, tokens out; the only place where Scheduler, KvCache, BatchBuilder
// and Executor meet.
//
// One thread calls it. submit() refuses, by throwing, what can never be served, with need, limit
// and a setting that would work; after that nothing that a request does stops the engine: a step
// that fails ends the requests in it with FinishReason::error, frees their blocks and goes on. With
// overlap_depth 1, step t + 1 is scheduled while t runs.
//   engine.submit(std::move(request));
//   while (!engine.idle()) for (const RequestOutput& output : engine.step()) …
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/error.h"
#include "engine/batch_builder.h"
#include "engine/engine_stats.h"
#include "engine/executor.h"
#include "engine/request.h"
#include "engine/request_table.h"
#include "engine/scheduler.h"
#include "engine/validate.h"
#include "kv/kv_cache.h"

namespace pagoda {

// What happens to computed KV after a token: kept, or (to see what that saves) thrown away and the
// whole prefix computed again for each token.
enum class KvReuse : uint8_t { kept, recomputed };

struct EngineOptions {
  int32_t max_model_len = 0;             // tokens of one sequence, prompt and answer
  int32_t max_num_seqs = 64;             // running at once; n samples count n
  int32_t max_num_batched_tokens = 256;  // token budget of a step, >= max_num_seqs
  int32_t max_num_waiting = 1024;        // submit() refuses beyond
  int32_t max_logprobs = 20;
  int32_t overlap_depth = 0;  // 0 or 1
  KvReuse kv_reuse = KvReuse::kept;
  int64_t ageing_us = 10'000'000;  // of waiting that make up for one level of priority
  int64_t vocabulary = 0;          // token ids are below
  uint64_t seed = 0;               // of the seeds of requests that bring none
  std::vector<int32_t> eos_ids = {};
  TextStreamFactory make_text = {};      // null: outputs carry no text
  std::function<int64_t()> now_us = {};  // null: the steady clock
};

class Engine {
 public:
  // `executor` outlives the engine. `kv` says how many blocks there are and how layers share them.
  // Throws Error{"engine.bad_options"}.
  Engine(EngineOptions options, const KvCacheOptions& kv, Executor& executor);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Throws Error: see validate(), and "engine.queue_full", "request.duplicate_id".
  void submit(Request request);
  // The request ends with FinishReason::cancelled at the next step; false if it is not live.
  bool cancel(RequestId id);
  // One turn of the loop. The outputs are valid until the next call.
  std::span<RequestOutput> step();
  // No live request and no step out.
  bool idle() const;
  // Drops every cached prefix that nobody uses.
  void clear_prefix_cache();

  const EngineOptions& options() const { return options_; }
  const RequestLimits& request_limits() const { return request_limits_; }
  const StepLimits& step_limits() const { return step_limits_; }
  const EngineStats& stats() const { return stats_; }
  // For inspection, on the engine's thread.
  const KvCache& kv() const { return kv_; }
  const Scheduler& scheduler() const { return scheduler_; }
  const RequestTable& requests() const { return requests_; }

 private:
  // A step that was submitted, or failed to be.
  struct StepSlot {
    explicit StepSlot(const StepLimits& limits) : input(limits), result(limits) {}
    StepInput input;
    StepResult result;
    SchedulerOutput scheduled;
    Ticket ticket = 0;
    std::optional<Error> failure;
  };
  void cancel_flagged();
  bool submit_step();
  void complete_step();
  void commit(const StepSlot& step);
  void commit_row(const ScheduledTokens& row, const StepResult& result);
  void fail_step(const StepSlot& step, const Error& error);
  void fail_stuck();
  void end_turn();

  EngineOptions options_;
  Executor& executor_;
  KvCache kv_;
  Scheduler scheduler_;
  EngineStats stats_;
  RequestTable requests_;
  RequestLimits request_limits_;
  StepLimits step_limits_;
  BatchBuilder builder_;
  std::vector<StepSlot> slots_;  // overlap_depth + 1
  size_t num_submitted_ = 0;     // step i lies in slot i modulo their number
  size_t num_completed_ = 0;
};

}  // namespace pagoda
