#include "engine/engine.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <string>

#include "base/error.h"
#include "engine/simulation/fake_executor.h"
#include "engine/simulation/oracle.h"

namespace pagoda {
namespace {

using simulation::FakeExecutor;

constexpr int32_t kS = 16;

struct Setup {
  int32_t num_blocks = 64;
  int32_t overlap_depth = 0;
  int32_t budget = 32;
  int32_t max_num_seqs = 4;
  int32_t max_num_waiting = 100;
  KvReuse reuse = KvReuse::kept;
  std::vector<int32_t> windows = {0};
};

// An engine on the simulation's fake, and all that came out of it.
class Bench {
 public:
  explicit Bench(const Setup& setup = {})
      : windows_(setup.windows),
        executor({kS, setup.num_blocks, setup.windows}, simulation::RunAt::wait),
        engine({.max_model_len = 512,
                .max_num_seqs = setup.max_num_seqs,
                .max_num_batched_tokens = setup.budget,
                .max_num_waiting = setup.max_num_waiting,
                .overlap_depth = setup.overlap_depth,
                .kv_reuse = setup.reuse,
                .ageing_us = 1000,
                .vocabulary = simulation::kVocabulary,
                .eos_ids = {simulation::kEos},
                .make_text = simulation::make_letters,
                .now_us = [this] { return now_us; }},
               {.block_size = kS, .num_blocks = setup.num_blocks, .windows = setup.windows},
               executor) {}

  void step() {
    now_us++;
    num_steps++;
    for (const RequestOutput& output : engine.step()) {
      auto [place, is_new] = outputs.try_emplace({output.id, output.choice}, output);
      if (!is_new) place->second.append(RequestOutput(output));
    }
  }
  void run() {
    for (int i = 0; i < 20000 && !engine.idle(); i++) step();
    ASSERT_TRUE(engine.idle());
    EXPECT_EQ(executor.violation(), "");
    EXPECT_EQ(engine.kv().pool().num_referenced(), 0);
  }
  const RequestOutput& of(RequestId id, int32_t choice = 0) { return outputs.at({id, choice}); }
  simulation::Answer right(const Request& request, int32_t choice = 0) {
    return simulation::expected_answer(
        request, choice, of(request.id, choice).seed, windows_, request.max_tokens, 512);
  }

 private:
  std::vector<int32_t> windows_;

 public:
  int64_t now_us = 1;
  int64_t num_steps = 0;
  FakeExecutor executor;
  Engine engine;
  std::map<std::pair<RequestId, int32_t>, RequestOutput> outputs;
};

Request make(RequestId id, int32_t prompt_tokens, int32_t max_tokens, int32_t first_token = 1) {
  Request request;
  request.id = id;
  request.prompt.assign(prompt_tokens, 7);
  request.prompt[0] = first_token;
  request.max_tokens = max_tokens;
  request.ignores_eos = true;
  request.sampling.temperature = 0.f;
  return request;
}

std::string kind_of(Engine& engine, Request request) {
  try {
    engine.submit(std::move(request));
  } catch (const Error& error) {
    return error.kind();
  }
  return "";
}

TEST(Engine, the_second_time_a_prompt_comes_its_full_blocks_are_cached) {
  Bench bench;
  bench.engine.submit(make(1, 40, 4));
  bench.run();
  bench.engine.submit(make(2, 40, 4));
  bench.run();
  Request longer = make(3, 40, 4);
  longer.prompt.insert(longer.prompt.end(), {3, 4, 5});
  bench.engine.submit(longer);
  bench.run();
  EXPECT_EQ(bench.of(1).cached_tokens, 0);
  EXPECT_EQ(bench.of(2).cached_tokens, (40 - 1) / kS * kS);
  EXPECT_EQ(bench.of(3).cached_tokens, 32);
  EXPECT_EQ(bench.of(1).token_ids, bench.of(2).token_ids);
  EXPECT_EQ(bench.of(3).token_ids, bench.right(longer).tokens);
  EXPECT_EQ(bench.of(2).prompt_tokens, 40);
  EXPECT_EQ(bench.engine.stats().cached_tokens, 64);
}

TEST(Engine, a_prompt_of_whole_blocks_keeps_one_token_to_compute) {
  Bench bench;
  for (RequestId id = 1; id <= 2; id++) {
    bench.engine.submit(make(id, 3 * kS, 3));
    bench.run();
  }
  EXPECT_EQ(bench.of(2).cached_tokens, 2 * kS);
  EXPECT_EQ(bench.of(2).token_ids, bench.of(1).token_ids);
}

TEST(Engine, a_prompt_of_one_token_works_twice) {
  Bench bench;
  for (RequestId id = 1; id <= 2; id++) {
    bench.engine.submit(make(id, 1, 3));
    bench.run();
    EXPECT_EQ(bench.of(id).token_ids, bench.right(make(id, 1, 3)).tokens);
  }
}

// SC-03: two long requests in a pool for 1.2 of them, then one that can never fit.
TEST(Engine, preempted_requests_answer_as_if_alone_and_the_impossible_is_refused) {
  for (const int32_t depth : {0, 1}) {
    Bench bench({.num_blocks = 16, .overlap_depth = depth});
    const Request a = make(1, 100, 110, 2), b = make(2, 100, 110, 3);
    bench.engine.submit(a);
    bench.engine.submit(b);
    bench.run();
    EXPECT_EQ(bench.of(1).token_ids, bench.right(a).tokens);
    EXPECT_EQ(bench.of(2).token_ids, bench.right(b).tokens);
    EXPECT_GT(bench.engine.stats().preemptions, 0);
    EXPECT_LE(bench.engine.stats().preemptions, 4);
    EXPECT_EQ(kind_of(bench.engine, make(3, 100, 200)), "kv.capacity_exceeded");
  }
}

TEST(Engine, a_long_prompt_is_computed_in_chunks_and_nobody_behind_it_starves) {
  Bench bench({.budget = 16});
  bench.engine.submit(make(1, 160, 1, 2));
  Request later = make(2, 4, 20, 3);
  bench.step();
  bench.engine.submit(later);
  for (int i = 0; i < 4; i++) bench.step();
  EXPECT_EQ(bench.outputs.count({2, 0}), 0u);  // it waits for budget that the prompt takes
  bench.run();
  EXPECT_EQ(bench.of(2).token_ids, bench.right(later).tokens);

  Bench other({.budget = 16});
  other.engine.submit(make(1, 4, 40, 3));
  other.step();
  Request urgent = make(2, 160, 1, 2);
  urgent.priority = -1;
  other.engine.submit(urgent);
  const size_t before = other.of(1).token_ids.size();
  for (int i = 0; i < 6; i++) other.step();
  EXPECT_EQ(other.of(1).token_ids.size(), before + 6);
  other.run();
}

TEST(Engine, samples_share_the_prompt) {
  Bench bench;
  Request request = make(1, 50, 5);
  request.n = 3;
  request.sampling.temperature = 1.f;
  request.sampling.seed = 11;
  bench.engine.submit(request);
  bench.run();
  std::set<std::vector<int32_t>> answers;
  for (int32_t choice = 0; choice < 3; choice++) {
    EXPECT_EQ(bench.of(1, choice).token_ids, bench.right(request, choice).tokens);
    answers.insert(bench.of(1, choice).token_ids);
  }
  EXPECT_EQ(answers.size(), 3u);
  EXPECT_EQ(bench.engine.stats().computed_tokens, 50 + 3 * 4);
}

TEST(Engine, a_cancelled_request_is_gone_within_two_steps_in_every_phase) {
  for (const int32_t depth : {0, 1})
    for (const int steps_before : {0, 1, 2, 3, 4, 8}) {
      Bench bench({.overlap_depth = depth, .budget = 16});
      std::atomic<bool> cancelled{false};
      Request request = make(1, 40, 100);
      request.cancelled = &cancelled;
      bench.engine.submit(request);
      for (int i = 0; i < steps_before; i++) bench.step();
      cancelled = true;
      for (int i = 0; i < 2; i++) bench.step();
      EXPECT_EQ(bench.of(1).finish_reason, FinishReason::cancelled);
      EXPECT_TRUE(bench.engine.idle());
      EXPECT_EQ(bench.engine.kv().pool().num_referenced(), 0);
    }
}

TEST(Engine, a_step_that_fails_ends_its_requests_and_the_engine_goes_on) {
  Bench bench({.max_num_seqs = 1});
  bench.engine.submit(make(1, 20, 50));
  bench.engine.submit(make(2, 20, 5));
  for (int i = 0; i < 3; i++) bench.step();
  bench.executor.fails_at_wait = true;
  bench.run();
  EXPECT_EQ(bench.of(1).finish_reason, FinishReason::error);
  EXPECT_EQ(bench.of(1).error_kind, "fake.wait_failed");
  EXPECT_EQ(bench.of(2).finish_reason, FinishReason::length);
  EXPECT_EQ(bench.of(2).token_ids, bench.right(make(2, 20, 5)).tokens);
  EXPECT_EQ(bench.engine.stats().failed_steps, 1);
}

TEST(Engine, nan_fails_the_request_and_its_blocks_are_never_hit) {
  Bench bench;
  bench.executor.poison_row = 3;
  bench.engine.submit(make(1, 40, 5));
  bench.run();
  EXPECT_EQ(bench.of(1).error_kind, "engine.nan_logits");
  bench.engine.submit(make(2, 40, 5));
  bench.run();
  EXPECT_EQ(bench.of(2).cached_tokens, 0);
  EXPECT_EQ(bench.of(2).finish_reason, FinishReason::length);
}

TEST(Engine, recomputing_every_prefix_gives_the_same_tokens) {
  Bench kept, recomputed({.reuse = KvReuse::recomputed});
  for (Bench* bench : {&kept, &recomputed}) {
    bench->engine.submit(make(1, 40, 8));
    bench->run();
  }
  EXPECT_EQ(kept.of(1).token_ids, recomputed.of(1).token_ids);
  EXPECT_EQ(kept.engine.stats().computed_tokens, 40 + 7);
  EXPECT_EQ(recomputed.engine.stats().computed_tokens, 8 * 40 + 7 * 8 / 2);
}

TEST(Engine, stops_at_stop_tokens_stop_strings_and_the_end_of_the_context) {
  Bench bench;
  Request open = make(1, 10, 30);
  bench.engine.submit(open);
  bench.run();
  const RequestOutput& all = bench.of(1);
  ASSERT_EQ(all.token_ids.size(), 30u);
  EXPECT_EQ(all.finish_reason, FinishReason::length);

  Request by_id = make(2, 10, 30);
  by_id.stop_ids = {all.token_ids[5]};
  Request by_text = make(3, 10, 30);
  by_text.stop = {all.text.substr(10, 3)};
  bench.engine.submit(by_id);
  bench.engine.submit(by_text);
  bench.engine.submit(make(4, 510, 2));
  bench.run();
  EXPECT_EQ(bench.of(2).token_ids, bench.right(by_id).tokens);
  EXPECT_EQ(bench.of(2).finish_reason, FinishReason::stop);
  EXPECT_EQ(bench.of(3).stop_reason, by_text.stop[0]);
  EXPECT_EQ(bench.of(3).text, all.text.substr(0, all.text.find(by_text.stop[0])));
  EXPECT_EQ(bench.of(4).finish_reason, FinishReason::length);
  EXPECT_EQ(kind_of(bench.engine, make(5, 511, 2)), "request.context_length_exceeded");
}

TEST(Engine, urgent_requests_go_first_but_waiting_makes_up_for_priority) {
  Bench bench({.max_num_seqs = 1});
  bench.engine.submit(make(1, 4, 3));
  bench.step();
  bench.engine.submit(make(2, 4, 3));
  Request urgent = make(3, 4, 3);
  urgent.priority = -1;
  bench.engine.submit(urgent);
  bench.now_us += 5000;  // 5 levels' worth of waiting
  Request late = make(4, 4, 3);
  late.priority = -2;
  bench.engine.submit(late);
  bench.run();
  EXPECT_LT(bench.of(3).timings.first_token_us, bench.of(2).timings.first_token_us);
  EXPECT_LT(bench.of(2).timings.first_token_us, bench.of(4).timings.first_token_us);
}

TEST(Engine, refuses_more_waiting_requests_than_allowed_and_an_id_that_lives) {
  Bench bench({.max_num_waiting = 2});
  bench.engine.submit(make(1, 4, 3));
  EXPECT_EQ(kind_of(bench.engine, make(1, 4, 3)), "request.duplicate_id");
  bench.engine.submit(make(2, 4, 3));
  EXPECT_EQ(kind_of(bench.engine, make(3, 4, 3)), "engine.queue_full");
  bench.run();
}

TEST(Engine, a_missing_seed_is_drawn_once_and_reported) {
  Bench bench;
  for (RequestId id = 1; id <= 2; id++) {
    Request request = make(id, 10, 6);
    request.sampling.temperature = 1.f;
    bench.engine.submit(request);
    bench.run();
    EXPECT_EQ(bench.of(id).token_ids, bench.right(request).tokens);
  }
  EXPECT_NE(bench.of(1).seed, bench.of(2).seed);
  Request again = make(3, 10, 6);
  again.sampling.temperature = 1.f;
  again.sampling.seed = bench.of(1).seed;
  bench.engine.submit(again);
  bench.run();
  EXPECT_EQ(bench.of(3).token_ids, bench.of(1).token_ids);
}

TEST(Engine, overlap_schedules_ahead_and_changes_no_token) {
  Bench plain, ahead({.overlap_depth = 1});
  for (Bench* bench : {&plain, &ahead}) {
    for (RequestId id = 1; id <= 6; id++) bench->engine.submit(make(id, 20, 20, int32_t(id)));
    bench->run();
  }
  for (RequestId id = 1; id <= 6; id++) EXPECT_EQ(plain.of(id).token_ids, ahead.of(id).token_ids);
  EXPECT_LE(ahead.num_steps, plain.num_steps + 6);
}

TEST(Engine, options_that_cannot_work_are_refused) {
  FakeExecutor executor({kS, 4, {0}}, simulation::RunAt::submit);
  const auto kind = [&](EngineOptions options) -> std::string {
    try {
      Engine engine(options, {.block_size = kS, .num_blocks = 4}, executor);
    } catch (const Error& error) {
      return error.kind();
    }
    return "";
  };
  EXPECT_EQ(kind({.max_model_len = 1}), "engine.bad_options");
  EXPECT_EQ(kind({.max_model_len = 64, .max_num_seqs = 8, .max_num_batched_tokens = 4}),
            "engine.bad_options");
  EXPECT_EQ(kind({.max_model_len = 64, .overlap_depth = 1, .kv_reuse = KvReuse::recomputed}),
            "engine.bad_options");
}

}  // namespace
}  // namespace pagoda
