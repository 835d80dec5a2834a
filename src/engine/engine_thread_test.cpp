#include "engine/engine_thread.h"

#include <gtest/gtest.h>

#include <future>
#include <thread>
#include <vector>

#include "base/error.h"
#include "engine/simulation/fake_executor.h"
#include "engine/simulation/oracle.h"

namespace pagoda {
namespace {

const std::vector<int32_t> kWindows = {0, 20};

struct Threaded {
  explicit Threaded(int32_t depth = 0, int32_t max_num_waiting = 100)
      : executor({16, 96, kWindows}, simulation::RunAt::submit),
        engine({.max_model_len = 256,
                .max_num_seqs = 4,
                .max_num_batched_tokens = 32,
                .max_num_waiting = max_num_waiting,
                .overlap_depth = depth,
                .vocabulary = simulation::kVocabulary,
                .eos_ids = {simulation::kEos},
                .make_text = simulation::make_letters},
               {.block_size = 16, .num_blocks = 96, .windows = kWindows},
               executor),
        thread(engine) {}
  simulation::FakeExecutor executor;
  Engine engine;
  EngineThread thread;
};

Request make(int32_t first_token, int32_t max_tokens) {
  Request request;
  request.prompt.assign(30, 5);
  request.prompt[0] = first_token;
  request.max_tokens = max_tokens;
  request.ignores_eos = true;
  request.sampling.seed = 3;
  return request;
}

RequestOutput read_all(OutputStream& outputs) {
  RequestOutput all;
  while (std::optional<RequestOutput> output = outputs.next()) all.append(std::move(*output));
  return all;
}

TEST(EngineThread, answers_many_threads_as_if_each_were_alone) {
  for (const int32_t depth : {0, 1}) {
    Threaded threaded(depth);
    std::vector<std::thread> callers;
    for (int32_t caller = 0; caller < 6; caller++)
      callers.emplace_back([&, caller] {
        for (int32_t i = 0; i < 10; i++) {
          const Request request = make(1 + caller, 5 + i);
          std::optional<RequestHandle> handle = threaded.thread.submit(request);
          ASSERT_TRUE(handle);
          const RequestOutput got = read_all(handle->outputs());
          const simulation::Answer right =
              simulation::expected_answer(request, 0, 3, kWindows, request.max_tokens, 256);
          EXPECT_EQ(got.token_ids, right.tokens);
          EXPECT_EQ(got.text, right.text);
          EXPECT_EQ(got.finish_reason, FinishReason::length);
        }
      });
    for (std::thread& caller : callers) caller.join();
    threaded.thread.shut_down(Shutdown::drain);
    EXPECT_EQ(threaded.executor.violation(), "");
    EXPECT_EQ(threaded.engine.kv().pool().num_referenced(), 0);
  }
}

TEST(EngineThread, a_dropped_handle_cancels_its_request) {
  Threaded threaded;
  for (int i = 0; i < 20; i++) {
    std::optional<RequestHandle> handle = threaded.thread.submit(make(1, 200));
    ASSERT_TRUE(handle);
    if (i % 2 == 0) (void)handle->outputs().next();
  }
  threaded.thread.shut_down(Shutdown::drain);
  EXPECT_EQ(threaded.engine.stats().finished_cancelled + threaded.engine.stats().finished_length,
            20);
  EXPECT_GT(threaded.engine.stats().finished_cancelled, 0);
  EXPECT_EQ(threaded.engine.kv().pool().num_referenced(), 0);
}

TEST(EngineThread, cancel_ends_the_stream) {
  Threaded threaded;
  std::optional<RequestHandle> handle = threaded.thread.submit(make(1, 220));
  ASSERT_TRUE(handle);
  handle->cancel();
  EXPECT_EQ(read_all(handle->outputs()).finish_reason, FinishReason::cancelled);
}

TEST(EngineThread, shutting_down_drains_or_cancels) {
  for (const Shutdown how : {Shutdown::drain, Shutdown::cancel}) {
    Threaded threaded;
    std::optional<RequestHandle> handle = threaded.thread.submit(make(1, 220));
    ASSERT_TRUE(handle);
    threaded.thread.shut_down(how);
    const FinishReason reason = read_all(handle->outputs()).finish_reason;
    if (how == Shutdown::drain) {
      EXPECT_EQ(reason, FinishReason::length);
    }
    EXPECT_FALSE(threaded.thread.submit(make(1, 2)));
    EXPECT_FALSE(threaded.thread.post([](Engine&) {}));
  }
}

TEST(EngineThread, refuses_bad_requests_on_the_callers_thread_and_surplus_by_its_return) {
  Threaded threaded(0, 2);
  EXPECT_THROW((void)threaded.thread.submit(make(-1, 4)), Error);
  std::vector<RequestHandle> handles;
  for (int i = 0; i < 200; i++)
    if (std::optional<RequestHandle> handle = threaded.thread.submit(make(1, 200)))
      handles.push_back(std::move(*handle));
  EXPECT_GE(handles.size(), 6u);
  for (RequestHandle& handle : handles) {
    const RequestOutput got = read_all(handle.outputs());
    EXPECT_TRUE(got.finish_reason == FinishReason::length || got.error_kind == "engine.queue_full");
  }
}

TEST(EngineThread, control_messages_run_between_steps) {
  Threaded threaded;
  std::optional<RequestHandle> handle = threaded.thread.submit(make(1, 10));
  ASSERT_TRUE(handle);
  read_all(handle->outputs());
  std::promise<int32_t> num_idle;
  ASSERT_TRUE(threaded.thread.post([&](Engine& engine) {
    engine.clear_prefix_cache();
    num_idle.set_value(engine.kv().pool().num_idle());
  }));
  EXPECT_EQ(num_idle.get_future().get(), 0);
}

TEST(OutputStream, joins_what_a_slow_reader_has_not_read_and_ends_with_the_last) {
  OutputStream outputs;
  const auto push = [&](int32_t choice, int32_t token, bool is_last) {
    RequestOutput output;
    output.choice = choice;
    output.token_ids = {token};
    output.text = std::to_string(token);
    output.request_finished = is_last;
    outputs.push(std::move(output));
  };
  push(0, 1, false);
  push(1, 2, false);
  push(0, 3, false);
  push(1, 4, false);
  push(0, 5, true);
  const std::optional<RequestOutput> first = outputs.next(), second = outputs.next();
  EXPECT_EQ(first->choice, 1);
  EXPECT_EQ(first->text, "24");
  EXPECT_EQ(second->token_ids, (std::vector<int32_t>{1, 3, 5}));
  EXPECT_TRUE(second->request_finished);
  EXPECT_FALSE(outputs.next());
}

}  // namespace
}  // namespace pagoda
