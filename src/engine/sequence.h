// Sequence: the mutable state of one generation (one choice of a request). RequestState: a request
// and its n choices.
//
// Owned by the RequestTable; changed by the Scheduler (state, num_computed, kv) and by the commit
// of a step (the rest), both on the engine's thread. A row of a step that is out refers to a
// Sequence by address and epoch: preemption raises the epoch, and a RequestState outlives every
// step that was out when it ended.
#pragma once

#include <cstdint>
#include <memory>
#include <tuple>
#include <vector>

#include "engine/request.h"
#include "engine/stop_matcher.h"
#include "kv/kv_cache.h"
#include "sampling/sampler.h"

namespace pagoda {

struct RequestState;

enum class SequenceState : uint8_t {
  unborn,  // choices above 0, until the prompt is computed
  waiting,
  running,
  finished
};

struct Sequence {
  Sequence(RequestState& owner, int32_t index, Sampler its_sampler)
      : request(&owner), choice(index), sampler(std::move(its_sampler)) {}

  RequestState* request;
  int32_t choice;
  SequenceState state = SequenceState::unborn;
  std::vector<int32_t>
      tokens;                // prompt and what was generated; choices above 0 get theirs at birth
  int32_t num_computed = 0;  // tokens whose K and V are computed, or are in a step that is out
  int32_t num_pending = 0;   // tokens that steps which are out will add
  uint32_t epoch = 0;        // raised when its blocks are given up
  int32_t last_sample_row = -1;  // in the last step that it was part of
  SequenceKv kv;
  Sampler sampler;
  std::unique_ptr<TextStream> text;
  StopMatcher stops;
  int32_t num_generated = 0;

  int32_t num_tokens() const { return static_cast<int32_t>(tokens.size()) + num_pending; }
};

struct RequestState {
  Request request;
  uint64_t seed = 0;
  int32_t max_tokens = 0;      // at least 1
  int64_t order_us = 0;        // arrival + priority * ageing: who is first
  int32_t cached_tokens = -1;  // -1: not admitted yet
  int32_t num_unfinished = 0;  // choices
  bool is_forked = false;      // every choice is born
  bool is_cancelled = false;
  RequestTimings timings;
  std::vector<std::unique_ptr<Sequence>> sequences;  // [n]
};

// The order of service: earlier arrival, with `ageing` microseconds' head start for each level of
// priority, then lower id and choice. It never changes, so nobody is overtaken for ever.
inline bool is_before(const Sequence& a, const Sequence& b) {
  const auto key = [](const Sequence& s) {
    return std::tuple(s.request->order_us, s.request->request.id, s.choice);
  };
  return key(a) < key(b);
}

}  // namespace pagoda
