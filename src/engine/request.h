// Request: what a caller asks for. RequestOutput: what comes back, a piece at a time.
//
// A Request is immutable once submitted; the engine owns it until its last output. A request of n
// samples gives n choices, each of which ends exactly once, with a finish_reason; the last one's
// last output has request_finished set, and nothing follows it. Token ids of a stop token are
// reported and counted, but add no text; text never holds a stop string nor half a character.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backend/sample_args.h"
#include "sampling/sampling_params.h"

namespace pagoda {

using RequestId = uint64_t;

struct Request {
  RequestId id = 0;  // chosen by the caller, unique among live requests
  std::vector<int32_t> prompt;
  SamplingParams sampling;
  int32_t max_tokens = 0;         // per choice; 0: to the end of the context
  std::vector<std::string> stop;  // texts that end a choice
  std::vector<int32_t> stop_ids;  // tokens that do, besides EngineOptions::eos_ids
  bool ignores_eos = false;
  int32_t n = 1;           // samples of the prompt; they share its blocks
  int32_t priority = 0;    // lower goes first; waiting makes up for it, see Scheduler
  std::string cache_salt;  // prefixes are shared only under equal salts
  // Set by the caller's thread, read by the engine; outlives the last output. Null: none.
  const std::atomic<bool>* cancelled = nullptr;
};

// Turns one choice's tokens into text, whole characters only. text/ has the real one.
class TextStream {
 public:
  virtual ~TextStream() = default;
  virtual void append(int32_t token, std::string& text) = 0;  // adds what is complete now
  virtual void finish(std::string& text) = 0;                 // adds what is left
};
using TextStreamFactory = std::function<std::unique_ptr<TextStream>(const Request&)>;

enum class FinishReason : uint8_t { none, stop, length, cancelled, error };
std::string_view name(FinishReason reason);  // "stop"; "" for none

struct TokenLogprobs {
  int32_t token = -1;
  float logprob = 0.f;
  std::vector<TokenValue> top;  // largest first
};

// Microseconds of EngineOptions::now_us; 0: not yet.
struct RequestTimings {
  int64_t arrival_us = 0;
  int64_t admitted_us = 0;  // first time that it got blocks
  int64_t first_token_us = 0;
  int64_t last_token_us = 0;
};

struct RequestOutput {
  RequestId id = 0;
  int32_t choice = 0;
  std::vector<int32_t> token_ids;       // new ones
  std::vector<TokenLogprobs> logprobs;  // beside token_ids, where asked for
  std::string text;                     // new text
  FinishReason finish_reason = FinishReason::none;
  std::string stop_reason;    // the stop string that ended it
  std::string error_kind;     // with FinishReason::error
  std::string error_message;  // for people
  bool request_finished = false;

  int32_t prompt_tokens = 0;
  int32_t cached_tokens = 0;      // of the prompt, not computed at first admission
  int32_t completion_tokens = 0;  // so far
  uint64_t seed = 0;              // that the draws are keyed by
  RequestTimings timings;

  // Joins the next output of the same choice to this one.
  void append(RequestOutput&& next);
};

}  // namespace pagoda
