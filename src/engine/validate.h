// What a request may ask for: the one check that every way in goes through (rule R16). Pure: any
// thread may call it.
#pragma once

#include <cstdint>

#include "engine/request.h"
#include "kv/kv_cache.h"

namespace pagoda {

struct RequestLimits {
  int64_t vocabulary = 0;
  int32_t max_model_len = 0;
  int32_t max_num_seqs = 0;
  int32_t max_logprobs = 0;
  int32_t max_num_batched_tokens = 0;
  KvCacheOptions kv = {};
  int64_t max_kv_tokens = 0;  // of one sequence that has all blocks for itself
};

// Returns the most tokens that a choice may get: request.max_tokens, or what context and blocks
// leave. Throws Error: "request.bad_prompt", "request.bad_token", "request.bad_sampling",
// "request.bad_n", "request.bad_stop", "request.bad_max_tokens",
// "request.context_length_exceeded", "kv.capacity_exceeded" (with need, limit and a setting).
int32_t validate(const Request& request, const RequestLimits& limits);

}  // namespace pagoda
