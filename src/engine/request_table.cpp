#include "engine/request_table.h"

#include <algorithm>

#include "base/error.h"
#include "kv/planted_bug.h"

namespace pagoda {

RequestTable::RequestTable(GenerationRules rules,
                           Scheduler& scheduler,
                           KvCache& kv,
                           EngineStats& stats)
    : rules_(std::move(rules)), scheduler_(scheduler), kv_(kv), stats_(stats) {}

void RequestTable::add(
    Request request, int32_t max_tokens, uint64_t seed, int64_t order_us, int64_t now_us) {
  auto state = std::make_unique<RequestState>();
  state->request = std::move(request);
  state->max_tokens = max_tokens;
  state->seed = seed;
  state->order_us = order_us;
  state->timings.arrival_us = now_us;
  const Request& kept = state->request;
  state->num_unfinished = kept.n;
  state->is_forked = kept.n == 1;
  for (int32_t choice = 0; choice < kept.n; choice++) {
    state->sequences.push_back(std::make_unique<Sequence>(
        *state, choice, Sampler(kept.sampling, seed, static_cast<uint32_t>(choice), kept.prompt)));
    if (rules_.make_text) state->sequences.back()->text = rules_.make_text(kept);
  }
  Sequence& first = *state->sequences[0];
  first.tokens.reserve(kept.prompt.size() + max_tokens);
  first.tokens = kept.prompt;
  scheduler_.add_waiting(first);
  live_.emplace(kept.id, std::move(state));
}

RequestState* RequestTable::find(RequestId id) {
  const auto place = live_.find(id);
  return place == live_.end() ? nullptr : place->second.get();
}

void RequestTable::fork(RequestState& request, bool has_blocks) {
  const Sequence& first = *request.sequences[0];
  for (size_t i = 1; i < request.sequences.size(); i++) {
    Sequence& child = *request.sequences[i];
    child.tokens = first.tokens;
    child.num_pending = 1;  // drawn in the step that just returned, appended next
    if (has_blocks) {
      kv_.fork(first.kv, child.kv);
      child.num_computed = first.num_computed;
      scheduler_.add_running(child);
    } else {
      scheduler_.add_waiting(child);
    }
  }
  request.is_forked = true;
}

bool RequestTable::is_stop_token(const Request& request, int32_t token) const {
  return std::ranges::count(request.stop_ids, token) > 0 ||
         (!request.ignores_eos && std::ranges::count(rules_.eos_ids, token) > 0);
}

// Text of `token`, and whether it ends the choice.
FinishReason RequestTable::add_text(Sequence& sequence, int32_t token, RequestOutput& output) {
  const Request& request = sequence.request->request;
  const bool is_stop = is_stop_token(request, token);
  const bool is_last = is_stop || sequence.num_generated >= sequence.request->max_tokens ||
                       std::ssize(sequence.tokens) >= rules_.max_model_len;
  if (sequence.text) {
    std::string piece;
    if (!is_stop) sequence.text->append(token, piece);
    if (is_last) sequence.text->finish(piece);
    const std::string_view found = sequence.stops.append(piece, request.stop, output.text);
    if (!found.empty()) {
      output.stop_reason = found;
      return FinishReason::stop;
    }
    if (is_last) sequence.stops.flush(output.text);
  }
  return is_stop ? FinishReason::stop : is_last ? FinishReason::length : FinishReason::none;
}

void RequestTable::append(Sequence& sequence,
                          const SampledToken& sampled,
                          std::span<const TokenValue> top,
                          int64_t now_us) {
  RequestState& request = *sequence.request;
  PG_CHECK(sequence.num_pending > 0, "nothing is pending");
  sequence.num_pending--;
  sequence.tokens.push_back(sampled.token);
  sequence.num_generated++;
  sequence.sampler.accept(sampled.token);
  stats_.generated_tokens++;
  if (request.timings.first_token_us == 0) request.timings.first_token_us = now_us;
  request.timings.last_token_us = now_us;

  RequestOutput output = output_of(sequence);
  output.token_ids.push_back(sampled.token);
  if (request.request.sampling.num_logprobs >= 0)
    output.logprobs.push_back({sampled.token, sampled.logprob, {top.begin(), top.end()}});
  const FinishReason reason = add_text(sequence, sampled.token, output);
  if (reason == FinishReason::none)
    outputs_.push_back(std::move(output));
  else
    finish(sequence, reason, std::move(output));
}

void RequestTable::cancel(RequestState& request) {
  finish_all(request, FinishReason::cancelled, {});
}

void RequestTable::fail(RequestState& request, std::string_view kind, std::string_view message) {
  RequestOutput why;
  why.error_kind = kind;
  why.error_message = message;
  finish_all(request, FinishReason::error, why);
}

void RequestTable::fail_untrusted(RequestState& request,
                                  std::string_view kind,
                                  std::string_view message) {
  for (const auto& sequence : request.sequences)
    kv_.distrust(sequence->tokens, request.request.cache_salt);
  fail(request, kind, message);
}

void RequestTable::finish_all(RequestState& request,
                              FinishReason reason,
                              const RequestOutput& why) {
  // The last one takes the state along.
  const size_t n = request.sequences.size();
  std::vector<Sequence*> open;
  for (size_t i = 0; i < n; i++)
    if (request.sequences[i]->state != SequenceState::finished)
      open.push_back(request.sequences[i].get());
  for (Sequence* sequence : open) {
    RequestOutput output = output_of(*sequence);
    output.error_kind = why.error_kind;
    output.error_message = why.error_message;
    finish(*sequence, reason, std::move(output));
  }
}

RequestOutput RequestTable::output_of(const Sequence& sequence) const {
  const RequestState& request = *sequence.request;
  RequestOutput output;
  output.id = request.request.id;
  output.choice = sequence.choice;
  output.prompt_tokens = static_cast<int32_t>(request.request.prompt.size());
  output.cached_tokens = std::max(0, request.cached_tokens);
  output.completion_tokens = sequence.num_generated;
  output.seed = request.seed;
  output.timings = request.timings;
  return output;
}

void RequestTable::finish(Sequence& sequence, FinishReason reason, RequestOutput output) {
  RequestState& request = *sequence.request;
  PG_CHECK(sequence.state != SequenceState::finished, "request {} ends twice", request.request.id);
  scheduler_.remove(sequence);
  sequence.state = SequenceState::finished;
  if (reason != FinishReason::error || !planted(PlantedBug::error_leaks_blocks))
    kv_.release(sequence.kv);
  EngineStats::Counter* const counters[] = {nullptr,
                                            &stats_.finished_stop,
                                            &stats_.finished_length,
                                            &stats_.finished_cancelled,
                                            &stats_.finished_error};
  (*counters[static_cast<int>(reason)])++;
  output.finish_reason = reason;
  output.request_finished = --request.num_unfinished == 0;
  outputs_.push_back(output);
  if (reason == FinishReason::cancelled && planted(PlantedBug::finished_twice))
    outputs_.push_back(output);
  if (!output.request_finished) return;
  auto node = live_.extract(request.request.id);
  if (num_submitted_ > num_returned_)
    retired_.push_back({num_submitted_, std::move(node.mapped())});
}

void RequestTable::step_returned() {
  num_returned_++;
  std::erase_if(retired_, [&](const Retired& retired) { return retired.step <= num_returned_; });
}

}  // namespace pagoda
