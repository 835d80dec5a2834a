#include "engine/validate.h"

#include <algorithm>
#include <cmath>

#include "base/checked.h"
#include "base/error.h"

namespace pagoda {

namespace {

constexpr int32_t kMaxChoices = 16;
constexpr int32_t kMaxStops = 16;
constexpr int32_t kMaxStopBytes = 1024;

void check_tokens(const Request& request, const RequestLimits& limits) {
  const auto check = [&](int32_t token, std::string_view where) {
    if (token < 0 || token >= limits.vocabulary)
      throw Error("request.bad_token",
                  "token {} in {}: expected 0 to {}",
                  token,
                  where,
                  limits.vocabulary - 1);
  };
  for (const int32_t token : request.prompt) check(token, "prompt");
  for (const int32_t token : request.stop_ids) check(token, "stop_token_ids");
}

void check_choices_and_stops(const Request& request, const RequestLimits& limits) {
  const int32_t most = std::min(kMaxChoices, limits.max_num_seqs);
  if (request.n < 1 || request.n > most)
    throw Error("request.bad_n",
                "n {}: expected 1 to {}{}",
                request.n,
                most,
                most < kMaxChoices ? "; raise --max-num-seqs" : "");
  if (std::ssize(request.stop) > kMaxStops || std::ssize(request.stop_ids) > kMaxStops)
    throw Error("request.bad_stop",
                "{} stop strings and {} stop tokens: expected at most {} of each",
                request.stop.size(),
                request.stop_ids.size(),
                kMaxStops);
  for (const std::string& stop : request.stop)
    if (stop.empty() || std::ssize(stop) > kMaxStopBytes)
      throw Error("request.bad_stop",
                  "a stop string of {} bytes: expected 1 to {}",
                  stop.size(),
                  kMaxStopBytes);
}

[[noreturn]] void refuse_capacity(int64_t need, const RequestLimits& limits) {
  int64_t blocks = 0;
  for (const int32_t window : limits.kv.windows)
    blocks +=
        kv_blocks_of_sequence(window, limits.kv.block_size, need, limits.max_num_batched_tokens);
  std::string setting = "raise --kv-cache-memory-bytes";
  if (limits.kv.block_bytes > 0)
    setting += fmt::format(" to {}MiB", ceil_div(blocks * limits.kv.block_bytes, 1 << 20));
  throw Error(
      "kv.capacity_exceeded",
      "the request needs {} KV blocks for {} tokens, and there are {}, for {} tokens of one "
      "sequence; {}, or ask for fewer tokens",
      blocks,
      need,
      limits.kv.num_blocks,
      limits.max_kv_tokens,
      setting);
}

}  // namespace

int32_t validate(const Request& request, const RequestLimits& limits) {
  const int64_t prompt = std::ssize(request.prompt);
  if (prompt == 0)
    throw Error("request.bad_prompt", "the prompt has no tokens: expected at least 1");
  if (request.max_tokens < 0)
    throw Error("request.bad_max_tokens",
                "max_tokens {}: expected 1 or more, or 0 for as many as fit",
                request.max_tokens);
  // A prompt needs room for one token more; the last token of all is never computed.
  const int64_t wanted = std::max<int64_t>(1, request.max_tokens);
  if (prompt + wanted > limits.max_model_len)
    throw Error(
        "request.context_length_exceeded",
        "this model's maximum context length is {} tokens, but {} were asked for ({} in the "
        "prompt, {} to generate); shorten the prompt, ask for fewer tokens, or raise "
        "--max-model-len",
        limits.max_model_len,
        prompt + wanted,
        prompt,
        wanted);
  if (prompt + wanted - 1 > limits.max_kv_tokens) refuse_capacity(prompt + wanted - 1, limits);
  check_tokens(request, limits);
  validate(request.sampling,
           {.vocabulary = limits.vocabulary, .max_logprobs = limits.max_logprobs});
  check_choices_and_stops(request, limits);
  if (request.max_tokens > 0) return request.max_tokens;
  return static_cast<int32_t>(std::min<int64_t>(limits.max_model_len, limits.max_kv_tokens + 1) -
                              prompt);
}

}  // namespace pagoda
