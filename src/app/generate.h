// One answer: a prompt through the engine as a batch of one, its text handed on as it comes.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/deployment.h"

namespace pagoda {

struct GenerateRequest {
  std::vector<int32_t> prompt;
  SamplingParams sampling;
  int32_t max_tokens = 0;  // 0: to the end of the context
  std::vector<std::string> stop;
  bool ignores_eos = false;
  const std::atomic<bool>* cancelled = nullptr;  // set by a signal handler, say
};

struct GenerateResult {
  std::string text;
  std::vector<int32_t> token_ids;
  std::vector<TokenLogprobs> logprobs;
  FinishReason finish_reason = FinishReason::none;
  int32_t prompt_tokens = 0;
  int32_t cached_tokens = 0;
  uint64_t seed = 0;
  double ttft_s = 0;  // from submission to the first token
  double prefill_tokens_per_s = 0;
  double decode_tokens_per_s = 0;  // 0: fewer than two tokens
};

// `on_text` gets each piece, whole characters only; false from it cancels the answer. Throws Error:
// what Engine::submit throws, and the error that ended the request.
GenerateResult generate(Deployment& deployment,
                        const GenerateRequest& request,
                        const std::function<bool(std::string_view)>& on_text);

}  // namespace pagoda
