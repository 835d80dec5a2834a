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
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/engine_stats.h"
#include "engine/executor.h"
#include "engine/request.h"
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
  std::vector<int32_t> eos_ids;
  TextStreamFactory make_text;      // null: outputs carry no text
  std::function<int64_t()> now_us;  // null: the steady clock
};

class Engine {
 public:
  // `executor` outlives the engine. `kv` says how many blocks there are and how layers share them.
  Engine(EngineOptions options, const KvCacheOptions& kv, Executor& executor);
  ~Engine();

  // Throws Error: "request.*" (see engine/validate.h), "kv.capacity_exceeded",
  // "engine.queue_full".
  void submit(Request request);
  // The request ends with FinishReason::cancelled at the next step; false if it is not live.
  bool cancel(RequestId id);
  // One turn of the loop. The outputs are valid until the next call.
  std::span<RequestOutput> step();
  // No live request and no step out.
  bool idle() const;
  // Drops every cached prefix that nobody uses.
  void clear_prefix_cache();

  const EngineOptions& options() const;
  const EngineStats& stats() const;
  const KvCache& kv() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace pagoda
