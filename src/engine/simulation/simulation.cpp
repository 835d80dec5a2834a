#include "engine/simulation/simulation.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <vector>

#include "base/checked.h"
#include "engine/engine.h"
#include "engine/simulation/fake_executor.h"
#include "engine/simulation/oracle.h"
#include "engine/simulation/step_checks.h"
#include "kv/audit.h"

namespace pagoda::simulation {

namespace {

// Draws without std distributions, whose results differ between libraries.
struct Random {
  std::mt19937_64 bits;
  int32_t below(int32_t n) { return static_cast<int32_t>(bits() % static_cast<uint64_t>(n)); }
  int32_t between(int32_t low, int32_t high) { return low + below(high - low + 1); }
  bool chance(int32_t in_1000) { return below(1000) < in_1000; }
  template <typename T>
  T pick(std::initializer_list<T> all) {
    return all.begin()[below(static_cast<int32_t>(all.size()))];
  }
};

struct Choice {
  RequestOutput delivered;  // all that its reader has read
  RequestOutput unread;     // a stalled reader's
  bool has_unread = false;
  bool is_finished = false;
};

struct Client {
  Request request;  // a copy
  std::atomic<bool> cancelled{false};
  int64_t cancelled_at = -1;  // step
  int32_t max_tokens = 0;
  bool is_finished = false;
  bool may_fail = false;  // a step that it was part of failed, or it saw a NaN
  std::vector<Choice> choices;
};

class Run {
 public:
  explicit Run(uint64_t seed) : random_{std::mt19937_64(seed)} { make_engine(); }
  RunResult run();

 private:
  void make_engine();
  Request make_request();
  void arrive();
  void cancel_some();
  void inject_faults();
  void step();
  void take(const RequestOutput& output);
  void read(Choice& choice);
  void check_choice(const Client& client, const Choice& choice);
  void check_state();
  void check_drained();
  int64_t steps_to_drain() const;
  void fail(const std::string& what);
  bool has_failed() const { return !result_.violation.empty(); }

  Random random_;
  RunResult result_;
  KvCacheOptions kv_;
  EngineOptions options_;
  std::unique_ptr<FakeExecutor> executor_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<StepChecks> step_checks_;
  std::map<RequestId, std::unique_ptr<Client>> clients_;
  std::vector<std::vector<int32_t>> prefixes_;
  std::vector<int32_t> reported_poisons_;
  int64_t now_us_ = 1;
  RequestId next_id_ = 1;
};

void Run::make_engine() {
  kv_.block_size = random_.pick({4, 8});
  kv_.windows =
      random_.pick<std::vector<int32_t>>({{0}, {0}, {0, 9}, {12, 0}, {7, 0, 16}, {10}, {0, 5}});
  kv_.prefix_caching = !random_.chance(150);
  options_.max_model_len = random_.between(24, 72);
  options_.max_num_seqs = random_.between(1, 6);
  options_.max_num_batched_tokens = options_.max_num_seqs + random_.between(0, 24);
  options_.max_num_waiting = random_.between(4, 40);
  options_.max_logprobs = 3;
  options_.overlap_depth = random_.below(2);
  if (options_.overlap_depth == 0 && random_.chance(60)) options_.kv_reuse = KvReuse::recomputed;
  options_.ageing_us = random_.pick<int64_t>({1000, 100'000});
  options_.vocabulary = kVocabulary;
  options_.seed = random_.bits();
  options_.eos_ids = {kEos};
  options_.make_text = make_letters;
  options_.now_us = [this] { return now_us_; };
  int64_t one = 0;  // blocks of the longest request
  for (const int32_t window : kv_.windows)
    one += kv_blocks_of_sequence(
        window, kv_.block_size, options_.max_model_len, options_.max_num_batched_tokens);
  kv_.num_blocks = static_cast<int32_t>(one * random_.pick({8, 11, 11, 14, 20, 40}) / 10 + 1);
  executor_ = std::make_unique<FakeExecutor>(FakeKv{kv_.block_size, kv_.num_blocks, kv_.windows},
                                             random_.chance(500) ? RunAt::submit : RunAt::wait);
  engine_ = std::make_unique<Engine>(options_, kv_, *executor_);
  step_checks_ = std::make_unique<StepChecks>(*engine_, *executor_);
  executor_->on_submit = [this](const StepInput& input) { step_checks_->check(input); };
  for (int i = 0; i < 3; i++) {
    prefixes_.emplace_back();
    // The last one repeats its first block.
    std::vector<int32_t>& prefix = prefixes_.back();
    for (int j = 0; j < 48; j++)
      prefix.push_back(i == 2 && j >= kv_.block_size ? prefix[j - kv_.block_size]
                                                     : random_.between(1, kVocabulary - 1));
  }
}

Request Run::make_request() {
  Request request;
  request.id = next_id_++;
  const int32_t blocks = random_.below(1 + options_.max_model_len / kv_.block_size);
  const int32_t shared = std::max(0, blocks * kv_.block_size + random_.between(-1, 1));
  const std::vector<int32_t>& prefix = prefixes_[random_.below(3)];
  request.prompt.assign(prefix.begin(),
                        prefix.begin() + std::min<ptrdiff_t>(shared, std::ssize(prefix)));
  const int32_t own = random_.pick({0, 1, 3, kv_.block_size, kv_.block_size + 1});
  for (int32_t i = 0; i < own; i++) request.prompt.push_back(random_.between(1, kVocabulary - 1));
  request.max_tokens = random_.chance(100) ? 0 : random_.between(1, 24);
  request.n = random_.chance(250) ? random_.between(1, 4) : 1;
  request.priority = random_.between(-1, 1);
  request.ignores_eos = random_.chance(300);
  request.cache_salt = random_.pick({"", "", "", "mine"});
  request.sampling.temperature = random_.chance(500) ? 0.f : 0.8f;
  if (random_.chance(600)) request.sampling.seed = random_.bits();
  if (random_.chance(200)) request.sampling.repetition_penalty = 1.1f;
  request.sampling.num_logprobs = random_.between(-1, 2);
  if (random_.chance(200)) request.stop_ids = {random_.between(1, kVocabulary - 1)};
  for (int32_t i = random_.chance(400) ? random_.between(1, 2) : 0; i > 0; i--) {
    std::string stop;
    for (int32_t j = random_.between(1, 2); j >= 0; j--)
      stop += static_cast<char>('a' + random_.below(20));
    request.stop.push_back(std::move(stop));
  }
  return request;
}

void Run::arrive() {
  for (int32_t burst = random_.between(1, 4); burst > 0; burst--) {
    auto client = std::make_unique<Client>();
    client->request = make_request();
    client->request.cancelled = &client->cancelled;
    client->choices.resize(std::max(1, client->request.n));
    const RequestId id = client->request.id;
    try {
      client->max_tokens = validate(client->request, engine_->request_limits());
      engine_->submit(client->request);
    } catch (const Error& error) {
      static const std::set<std::string> kExpected = {"request.context_length_exceeded",
                                                      "kv.capacity_exceeded",
                                                      "engine.queue_full",
                                                      "request.bad_prompt",
                                                      "request.bad_n"};
      if (!kExpected.contains(error.kind())) fail("refused with " + error.kind());
      continue;
    }
    result_.requests++;
    clients_.emplace(id, std::move(client));
  }
}

void Run::cancel_some() {
  for (const auto& [id, client] : clients_) {
    if (client->is_finished || client->cancelled_at >= 0 || !random_.chance(8)) continue;
    client->cancelled_at = result_.steps;
    if (random_.chance(500))
      client->cancelled = true;
    else if (!engine_->cancel(id))
      fail(fmt::format("request {} is not live", id));
  }
}

void Run::inject_faults() {
  executor_->fails_at_submit = random_.chance(6);
  executor_->fails_at_wait = random_.chance(6);
  executor_->poison_row = random_.chance(15) ? random_.below(8) : -1;
}

void Run::step() {
  now_us_ += random_.chance(10) ? 1'000'000 : random_.between(10, 500);
  const auto& running = engine_->scheduler().running();
  const RequestId first = running.empty() ? 0 : running[0]->request->request.id;
  const int32_t first_choice = running.empty() ? 0 : running[0]->choice;
  step_checks_->first_in_order = {first, first_choice};
  const int64_t num_failed_before = engine_->stats().failed_steps;
  const std::span<RequestOutput> outputs = engine_->step();
  result_.steps++;
  std::set<RequestId> has_nan;
  const bool step_failed = engine_->stats().failed_steps > num_failed_before;
  for (const RequestOutput& output : outputs) {
    const bool is_nan = output.error_kind == "engine.nan_logits";
    if (output.finish_reason == FinishReason::error && !is_nan &&
        !(step_failed && output.error_kind.starts_with("fake.")))
      fail(fmt::format(
          "request {} fails: {} {}", output.id, output.error_kind, output.error_message));
    if (is_nan && executor_->seen_poisons().empty())
      fail(fmt::format("request {} has NaN that nobody injected", output.id));
    if (is_nan) has_nan.insert(output.id);
    take(output);
  }
  for (const auto& [input, seq, poison] : executor_->seen_poisons())
    if (has_nan.contains(step_checks_->request_of(*input, seq)))
      reported_poisons_.push_back(poison);
  check_state();
  if (!executor_->violation().empty()) fail(executor_->violation());
  if (!step_checks_->violation().empty()) fail(step_checks_->violation());
}

void Run::take(const RequestOutput& output) {
  const auto place = clients_.find(output.id);
  if (place == clients_.end()) return fail(fmt::format("output of request {}", output.id));
  Client& client = *place->second;
  Choice& choice = client.choices[output.choice];
  if (client.is_finished || choice.is_finished)
    return fail(fmt::format("request {} goes on after its end", output.id));
  choice.is_finished = output.finish_reason != FinishReason::none;
  client.is_finished = output.request_finished;
  const bool all_finished = std::ranges::all_of(client.choices, &Choice::is_finished);
  if (client.is_finished != all_finished)
    return fail(fmt::format("request {}: end of the request and of its choices", output.id));
  if (choice.has_unread)
    choice.unread.append(RequestOutput(output));
  else
    choice.unread = output;
  choice.has_unread = true;
  if (random_.chance(700) || client.is_finished) read(choice);
  if (client.is_finished)
    for (Choice& each : client.choices) {
      read(each);
      check_choice(client, each);
    }
}

void Run::read(Choice& choice) {
  if (!choice.has_unread) return;
  choice.delivered.append(std::move(choice.unread));
  choice.has_unread = false;
}

void Run::check_choice(const Client& client, const Choice& choice) {
  const RequestOutput& got = choice.delivered;
  const Answer right = expected_answer(
      client.request, got.choice, got.seed, kv_.windows, client.max_tokens, options_.max_model_len);
  const auto what = [&] { return fmt::format("request {} choice {}", got.id, got.choice); };
  const bool is_whole =
      got.finish_reason == FinishReason::stop || got.finish_reason == FinishReason::length;
  if (client.request.sampling.seed.value_or(got.seed) != got.seed) fail(what() + ": seed");
  if (is_whole && (got.token_ids != right.tokens || got.text != right.text ||
                   got.finish_reason != right.reason))
    return fail(fmt::format("{}: '{}' ({}, {} tokens) for '{}' ({}, {} tokens)",
                            what(),
                            got.text,
                            name(got.finish_reason),
                            got.token_ids.size(),
                            right.text,
                            name(right.reason),
                            right.tokens.size()));
  if (got.token_ids.size() > right.tokens.size() ||
      !std::equal(got.token_ids.begin(), got.token_ids.end(), right.tokens.begin()) ||
      !right.text.starts_with(got.text))
    return fail(what() + ": not a start of the right answer");
  if (got.completion_tokens != std::ssize(got.token_ids)) fail(what() + ": completion_tokens");
  const int32_t num_top = client.request.sampling.num_logprobs;
  if (got.logprobs.size() != (num_top < 0 ? 0 : got.token_ids.size()))
    return fail(what() + ": number of logprobs");
  for (size_t i = 0; i < got.logprobs.size(); i++)
    if (got.logprobs[i].token != right.tokens[i] || got.logprobs[i].logprob != right.logprobs[i] ||
        std::ssize(got.logprobs[i].top) != num_top)
      return fail(what() + ": logprobs");
  const auto cached = step_checks_->first_position(got.id);
  if (got.cached_tokens != cached.value_or(0) || got.cached_tokens >= got.prompt_tokens ||
      got.cached_tokens % kv_.block_size != 0)
    fail(fmt::format(
        "{}: {} cached tokens, began at {}", what(), got.cached_tokens, cached.value_or(-1)));
  if (got.finish_reason == FinishReason::cancelled && client.cancelled_at < 0)
    fail(what() + ": cancelled by nobody");
  result_.finished += is_whole;
  result_.cancelled += got.finish_reason == FinishReason::cancelled;
  result_.failed += got.finish_reason == FinishReason::error;
  result_.nans += got.error_kind == "engine.nan_logits";
  result_.log = mix(result_.log, mix(got.id, mix(got.seed, std::hash<std::string>{}(got.text))));
}

void Run::check_state() {
  std::vector<const SequenceKv*> tables;
  for (const auto& [id, state] : engine_->requests().live())
    for (const auto& sequence : state->sequences) {
      tables.push_back(&sequence->kv);
      const bool is_running = sequence->state == SequenceState::running;
      if (sequence->kv.num_slots != (is_running ? sequence->num_computed : 0))
        fail(fmt::format("request {}: {} slots for {} tokens",
                         id,
                         sequence->kv.num_slots,
                         sequence->num_computed));
    }
  if (const std::string wrong = audit(engine_->kv(), tables); !wrong.empty()) fail(wrong);
  for (int32_t block = 0; block < kv_.num_blocks; block++)
    if (engine_->kv().pool().is_cached(block) && executor_->has_poison(block, reported_poisons_))
      fail(fmt::format("block {} holds NaN and is in the index", block));
  for (const auto& [id, client] : clients_)
    if (!client->is_finished && client->cancelled_at >= 0 &&
        result_.steps - client->cancelled_at > 2)
      fail(fmt::format("request {} was cancelled at step {}", id, client->cancelled_at));
  if (std::ssize(engine_->scheduler().running()) > options_.max_num_seqs)
    fail("more sequences run than may");
  for (const StepInput* input : executor_->out()) step_checks_->check_still_there(*input);
}

// Every step gives the first of the order at least one token, but for one that only waits.
int64_t Run::steps_to_drain() const {
  int64_t steps = 8;
  for (const auto& [id, client] : clients_) {
    if (client->is_finished) continue;
    const int64_t tokens = std::ssize(client->request.prompt) + client->max_tokens;
    const int64_t per_choice = options_.kv_reuse == KvReuse::kept ? tokens : tokens * tokens;
    steps += 3 * client->request.n * (per_choice + 8);
  }
  return steps;
}

void Run::check_drained() {
  for (const auto& [id, client] : clients_)
    if (!client->is_finished) fail(fmt::format("request {} never ends", id));
  if (!engine_->scheduler().running().empty() || !engine_->scheduler().waiting().empty())
    fail("idle, but sequences are listed");
  if (engine_->kv().pool().num_referenced() != 0)
    fail(fmt::format("{} blocks are leaked", engine_->kv().pool().num_referenced()));
  if (engine_->requests().num_kept() != 0) fail("states of ended requests are kept");
}

void Run::fail(const std::string& what) {
  if (!has_failed()) result_.violation = fmt::format("step {}: {}", result_.steps, what);
}

RunResult Run::run() {
  const int32_t busy_steps = random_.between(40, 160);
  const int32_t arrivals_in_1000 = random_.pick({60, 150, 400});
  try {
    for (int32_t i = 0; i < busy_steps && !has_failed(); i++) {
      if (random_.chance(arrivals_in_1000)) arrive();
      cancel_some();
      inject_faults();
      step();
    }
    executor_->fails_at_submit = executor_->fails_at_wait = false;
    executor_->poison_row = -1;
    for (int64_t left = steps_to_drain(); left > 0 && !engine_->idle() && !has_failed(); left--)
      step();
    if (!has_failed()) check_drained();
  } catch (const std::exception& error) {  // PG_CHECK, where the test makes it throw
    fail(error.what());
  }
  const EngineStats& stats = engine_->stats();
  result_.preemptions = stats.preemptions;
  result_.cached_tokens = stats.cached_tokens;
  result_.forks = step_checks_->num_forked_steps;
  result_.copies = step_checks_->num_copies;
  result_.late_tokens = step_checks_->num_late_steps;
  result_.log = mix(result_.log, executor_->log());
  return result_;
}

}  // namespace

RunResult run_seed(uint64_t seed) {
  return std::make_unique<Run>(seed)->run();
}

}  // namespace pagoda::simulation
