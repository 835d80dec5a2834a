#include "app/generate.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/error.h"

namespace pagoda {
namespace {

constexpr RequestId kOnlyRequest = 1;

double seconds(int64_t from_us, int64_t to_us) {
  return double(to_us - from_us) * 1e-6;
}

void finish_timings(const RequestTimings& timings, GenerateResult& result) {
  result.ttft_s =
      timings.first_token_us == 0 ? 0 : seconds(timings.arrival_us, timings.first_token_us);
  const int32_t computed = result.prompt_tokens - result.cached_tokens;
  if (result.ttft_s > 0) result.prefill_tokens_per_s = computed / result.ttft_s;
  const double decode_s = seconds(timings.first_token_us, timings.last_token_us);
  if (result.token_ids.size() > 1 && decode_s > 0)
    result.decode_tokens_per_s = double(result.token_ids.size() - 1) / decode_s;
}

}  // namespace

GenerateResult generate(Deployment& deployment,
                        const GenerateRequest& request,
                        const std::function<bool(std::string_view)>& on_text) {
  Engine& engine = deployment.engine();
  engine.submit({.id = kOnlyRequest,
                 .prompt = request.prompt,
                 .sampling = request.sampling,
                 .max_tokens = request.max_tokens,
                 .stop = request.stop,
                 .stop_ids = {},
                 .ignores_eos = request.ignores_eos,
                 .cache_salt = {},
                 .cancelled = request.cancelled});
  GenerateResult result;
  RequestOutput last;
  while (!engine.idle()) {
    for (RequestOutput& output : engine.step()) {
      if (!output.text.empty() && !on_text(output.text)) engine.cancel(kOnlyRequest);
      result.text += output.text;
      result.token_ids.insert(
          result.token_ids.end(), output.token_ids.begin(), output.token_ids.end());
      std::move(
          output.logprobs.begin(), output.logprobs.end(), std::back_inserter(result.logprobs));
      last = std::move(output);
    }
  }
  if (last.finish_reason == FinishReason::error) throw Error(last.error_kind, last.error_message);
  result.finish_reason = last.finish_reason;
  result.prompt_tokens = last.prompt_tokens;
  result.cached_tokens = last.cached_tokens;
  result.seed = last.seed;
  finish_timings(last.timings, result);
  return result;
}

}  // namespace pagoda
