// RequestTable: the live requests, and what comes out of them.
//
// It owns every RequestState, and is the only place where a choice ends: each one exactly once,
// with its blocks given up and one last output. A state that ended while steps were out is kept
// until those have returned, as they may refer to it. Used by the Engine, on its thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "engine/engine_stats.h"
#include "engine/scheduler.h"
#include "engine/sequence.h"

namespace pagoda {

struct GenerationRules {
  int32_t max_model_len = 0;
  std::vector<int32_t> eos_ids = {};
  TextStreamFactory make_text = {};
};

class RequestTable {
 public:
  RequestTable(GenerationRules rules, Scheduler& scheduler, KvCache& kv, EngineStats& stats);

  // A validated request starts to wait.
  void add(Request request, int32_t max_tokens, uint64_t seed, int64_t order_us, int64_t now_us);
  RequestState* find(RequestId id);
  // Live ones, by id.
  const std::map<RequestId, std::unique_ptr<RequestState>>& live() const { return live_; }

  // The prompt is computed: choices above 0 are born, sharing the first one's blocks if
  // `has_blocks`.
  void fork(RequestState& request, bool has_blocks);
  // The next token of a choice; it may end by it.
  void append(Sequence& sequence,
              const SampledToken& sampled,
              std::span<const TokenValue> top,
              int64_t now_us);
  void cancel(RequestState& request);
  // Every choice that has not ended ends with an error.
  void fail(RequestState& request, std::string_view kind, std::string_view message);
  // The same, and what was computed of its tokens is struck from the prefix index.
  void fail_untrusted(RequestState& request, std::string_view kind, std::string_view message);

  // States that ended stay until as many steps have returned as were out.
  void step_submitted() { num_submitted_++; }
  void step_returned();

  // States in memory: live ones and those that ended.
  size_t num_kept() const { return live_.size() + retired_.size(); }

  std::vector<RequestOutput>& outputs() { return outputs_; }

 private:
  struct Retired {
    uint64_t step;
    std::unique_ptr<RequestState> state;
  };
  RequestOutput output_of(const Sequence& sequence) const;
  FinishReason add_text(Sequence& sequence, int32_t token, RequestOutput& output);
  bool is_stop_token(const Request& request, int32_t token) const;
  void finish(Sequence& sequence, FinishReason reason, RequestOutput output);
  void finish_all(RequestState& request, FinishReason reason, const RequestOutput& why);

  GenerationRules rules_;
  Scheduler& scheduler_;
  KvCache& kv_;
  EngineStats& stats_;
  std::map<RequestId, std::unique_ptr<RequestState>> live_;
  std::vector<Retired> retired_;
  std::vector<RequestOutput> outputs_;
  uint64_t num_submitted_ = 0;
  uint64_t num_returned_ = 0;
};

}  // namespace pagoda
