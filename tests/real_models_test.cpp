// The same answer every way, on the real models at this machine's instruction set: alone, in a
// batch of 8, in chunks of 1, 7 and 64, after a prefix hit, after preemption, with 1, 2 and 3
// threads; greedy and seeded; KV in 16 bits, int8 and int4. What is compared are the tokens and,
// bit for bit, the log-probabilities of the 20 likeliest: functions of the logits alone. (Tiny
// models on every instruction set: src/engine/equality.)
#include <gtest/gtest.h>

#include <bit>
#include <filesystem>

#include "app/model_path.h"
#include "base/checked.h"
#include "engine/deployment.h"

namespace pagoda {
namespace {

namespace fs = std::filesystem;

constexpr int32_t kAnswer = 12;  // tokens
constexpr int32_t kLength = 192;
constexpr RequestId kMine = 1;

const char* kText =
    "A paged key-value cache keeps the keys and values of each token in blocks of fixed size. A "
    "sequence owns a table of "
    "blocks; equal beginnings of prompts share them. def f(x):\n    return x ** 2 + 1\n\nThe "
    "number 1234567 and the "
    "words größer, 東京 and café follow, so that the prompt has all kinds of tokens. What comes "
    "next";

struct Answer {
  std::vector<int32_t> tokens;
  std::vector<std::pair<int32_t, uint32_t>> logprobs;  // token, bits of the float
  int32_t cached_tokens = 0;
  bool operator==(const Answer& other) const {
    return tokens == other.tokens && logprobs == other.logprobs;
  }
};

struct Case {
  std::string model, kv_dtype;
  friend void PrintTo(const Case& c, std::ostream* out) { *out << c.model << " " << c.kv_dtype; }
};

class Equality : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    path_ = models_folder() / (GetParam().model + ".gguf");
    if (!fs::exists(path_)) GTEST_SKIP() << "scripts/fetch-model gets " << GetParam().model;
    settings_.kv_cache_dtype = GetParam().kv_dtype;
    settings_.max_model_len = kLength;
    settings_.threads = 2;
  }

  std::unique_ptr<Deployment> deploy(const EngineSettings& settings) {
    return std::make_unique<Deployment>(open_model(path_), settings, nullptr);
  }

  static Request request(const Deployment& deployment,
                         RequestId id,
                         const std::string& text,
                         float temperature) {
    Request request;
    request.id = id;
    request.prompt =
        deployment.tokenizer().encode(text, {.add_bos = deployment.tokenizer().adds_bos()});
    request.sampling.temperature = temperature;
    request.sampling.seed = 7;
    request.sampling.num_logprobs = 20;
    request.max_tokens = kAnswer;
    request.ignores_eos = true;
    return request;
  }

  // Runs until all is done; the answer of request kMine.
  static Answer finish(Engine& engine) {
    Answer answer;
    while (!engine.idle()) {
      for (const RequestOutput& output : engine.step()) {
        EXPECT_NE(output.finish_reason, FinishReason::error) << output.error_message;
        if (output.id != kMine) continue;
        answer.tokens.insert(answer.tokens.end(), output.token_ids.begin(), output.token_ids.end());
        for (const TokenLogprobs& row : output.logprobs)
          for (const TokenValue& top : row.top)
            answer.logprobs.emplace_back(top.token, std::bit_cast<uint32_t>(top.value));
        answer.cached_tokens = output.cached_tokens;
      }
    }
    return answer;
  }

  Answer alone(const EngineSettings& settings, float temperature) {
    const auto deployment = deploy(settings);
    deployment->engine().submit(request(*deployment, kMine, kText, temperature));
    return finish(deployment->engine());
  }

  // Among seven others of other lengths; mine comes fourth.
  Answer in_a_batch_of_8(float temperature) {
    EngineSettings settings = settings_;
    settings.max_num_seqs = 8;
    const auto deployment = deploy(settings);
    for (RequestId id = 2; id <= 4; id++)
      deployment->engine().submit(
          request(*deployment, id, std::string(kText).substr(id * 9), temperature));
    deployment->engine().submit(request(*deployment, kMine, kText, temperature));
    for (RequestId id = 5; id <= 8; id++)
      deployment->engine().submit(
          request(*deployment, id, std::string(kText).substr(id * 11), temperature));
    return finish(deployment->engine());
  }

  Answer in_chunks_of(int32_t chunk, float temperature) {
    EngineSettings settings = settings_;
    settings.max_num_batched_tokens = chunk;
    return alone(settings, temperature);
  }

  Answer after_a_prefix_hit(float temperature) {
    const auto deployment = deploy(settings_);
    deployment->engine().submit(request(*deployment, 2, kText, temperature));
    finish(deployment->engine());
    deployment->engine().submit(request(*deployment, kMine, kText, temperature));
    Answer answer = finish(deployment->engine());
    EXPECT_GT(answer.cached_tokens, 0);
    return answer;
  }

  // Room for little more than one sequence: the younger of two, mine, is preempted and computed
  // again.
  Answer after_preemption(float temperature) {
    EngineSettings settings = settings_;
    settings.max_num_seqs = 2;
    settings.enable_prefix_caching = false;
    settings.block_size =
        16;  // and so in other blocks than elsewhere, where the dtype has larger ones
    const auto probe = deploy(settings);
    const MemoryPlan& plan = probe->plan();
    const auto prompt = request(*probe, kMine, kText, 0).prompt.size();
    const int64_t S = plan.kv_layout.block_size, groups = int64_t(plan.kv_layout.groups.size());
    // Both prompts fit, with a block to spare; their answers, as long as the context allows, do
    // not.
    const int64_t blocks =
        std::max(plan.blocks_per_sequence, 2 * groups * ceil_div(int64_t(prompt), S) + 1);
    settings.kv_cache_memory_bytes = kv_bytes(plan.kv_layout, blocks);
    const auto deployment = deploy(settings);
    // The older one is never preempted.
    Request older = request(*deployment, 2, kText, temperature);
    older.prompt[0] = older.prompt[1];
    older.max_tokens = kLength - int32_t(older.prompt.size());
    Request mine = request(*deployment, kMine, kText, temperature);
    mine.max_tokens = kLength - int32_t(mine.prompt.size());
    deployment->engine().submit(std::move(older));
    deployment->engine().submit(std::move(mine));
    Answer answer = finish(deployment->engine());
    answer.tokens.resize(kAnswer);
    answer.logprobs.resize(size_t{kAnswer} * 20);
    preemptions_ += deployment->engine().stats().preemptions;
    return answer;
  }

  Answer with_threads(int32_t threads, float temperature) {
    EngineSettings settings = settings_;
    settings.threads = threads;
    return alone(settings, temperature);
  }

  fs::path path_;
  EngineSettings settings_;
  int64_t preemptions_ = 0;
};

TEST_P(Equality, holds_greedy_and_seeded) {
  for (const float temperature : {0.f, 1.f}) {
    SCOPED_TRACE(temperature);
    const Answer expected = alone(settings_, temperature);
    ASSERT_EQ(expected.tokens.size(), size_t{kAnswer});
    ASSERT_EQ(expected.logprobs.size(), size_t{kAnswer} * 20);
    EXPECT_EQ(in_a_batch_of_8(temperature), expected);
    for (const int32_t chunk : {1, 7, 64})
      EXPECT_EQ(in_chunks_of(chunk, temperature), expected) << chunk;
    EXPECT_EQ(after_a_prefix_hit(temperature), expected);
    for (const int32_t threads : {1, 3})
      EXPECT_EQ(with_threads(threads, temperature), expected) << threads;
    EXPECT_EQ(after_preemption(temperature), expected);
  }
  EXPECT_GT(preemptions_, 0);
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const char* model : {"smollm2-135m", "gemma-3-270m"})
    for (const char* dtype : {"bf16", "f16", "int8", "int4"}) all.push_back({model, dtype});
  return all;
}

INSTANTIATE_TEST_SUITE_P(RealModels, Equality, testing::ValuesIn(cases()), [](const auto& test) {
  std::string name = test.param.model + "_" + test.param.kv_dtype;
  for (char& c : name)
    if (c == '-') c = '_';
  return name;
});

}  // namespace
}  // namespace pagoda
