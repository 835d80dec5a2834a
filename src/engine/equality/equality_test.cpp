// The same answer every way: on tiny random models, through the whole engine, the logits of every
// position and the tokens of every request are the same bits alone, in a batch, in chunks of any
// size, after a prefix hit, after preemption, with one thread or two, scheduled ahead, and
// recomputed from nothing; for each KV dtype and each instruction set of this machine, and on its
// GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <tuple>

#include "backend/cpu/cpu_backend.h"
#if PAGODA_HAS_CUDA
#include "backend/cuda/cuda_backend.h"
#endif
#include "backend/weight_dtypes.h"
#include "base/error.h"
#include "engine/engine.h"
#include "engine/model_executor.h"
#include "model/shapes.h"
#include "model/weights.h"

namespace pagoda {
namespace {

using LogitsKey = std::tuple<uint64_t, uint32_t, uint64_t>;  // seed, choice, position

// What the executor asks of a backend, with a copy of every row of logits.
class RecordingBackend final : public Backend {
 public:
  explicit RecordingBackend(Backend& backend) : backend_(backend) {}
  std::map<LogitsKey, std::vector<float>> logits;

  std::string name() const override { return backend_.name(); }
  Allocator& allocator() override { return backend_.allocator(); }
  DType activation_dtype() const override { return backend_.activation_dtype(); }
  bool uses_host_memory() const override { return backend_.uses_host_memory(); }
  void copy_to_device(std::byte* device, const std::byte* host, int64_t bytes) override {
    backend_.copy_to_device(device, host, bytes);
  }
  void process_logits(const ProcessLogitsArgs& args) override {
    for (size_t r = 0; r < args.rows.size(); r++) {
      const SampleRow& row = args.rows[r];
      std::vector<float>& values = logits[{row.seed, row.choice, row.position}];
      values.resize(args.logits.cols());
      backend_.copy_to_host(reinterpret_cast<std::byte*>(values.data()),
                            reinterpret_cast<std::byte*>(args.logits.row<float>(int64_t(r))),
                            std::ssize(values) * int64_t{sizeof(float)});
    }
    backend_.process_logits(args);
  }
  void sample(const SampleArgs& args) override { backend_.sample(args); }
  void synchronize() override { backend_.synchronize(); }

  void copy_to_host(std::byte*, const std::byte*, int64_t) override { unused(); }
  int64_t packed_bytes(DType, int64_t, int64_t) const override { unused(); }
  void pack_rows(Weight&, int64_t, ConstTensorView) override { unused(); }
  int64_t workspace_bytes(const WorkspaceShape&) const override { unused(); }
  void reserve_workspace(const WorkspaceShape&) override { unused(); }
  void embed(const EmbedArgs&) override { unused(); }
  void norm(const NormArgs&) override { unused(); }
  void linear(const LinearArgs&) override { unused(); }
  void activation(const ActivationArgs&) override { unused(); }
  void rope_angles(const RopeAnglesArgs&) override { unused(); }
  void rope_store_kv(const RopeStoreKvArgs&) override { unused(); }
  void attention(const AttentionArgs&) override { unused(); }
  void gather_rows(const GatherRowsArgs&) override { unused(); }
  void copy_blocks(std::span<const KvView>, std::span<const BlockCopy>) override { unused(); }
  void zero_blocks(std::span<const KvView>, std::span<const int32_t>) override { unused(); }
  void read_kv(const KvView&, int64_t, std::span<float>, std::span<float>) override { unused(); }

 private:
  [[noreturn]] static void unused() { throw Error("test.unused", "not the executor's business"); }
  Backend& backend_;
};

struct TinyModel {
  const char* shape;   // whose traits it has
  int32_t window = 0;  // of the layers that have one
  DType weights = DType::q8_0;
  int32_t hidden_size = 64;
};

ModelConfig config_of(const TinyModel& tiny) {
  ModelConfig config = *shape_named(tiny.shape);
  config.vocab_size = 97;
  config.hidden_size = tiny.hidden_size;
  config.num_layers = 6;
  config.layers.resize(6);
  for (LayerConfig& layer : config.layers)
    if (layer.window > 0) layer.window = tiny.window;
  config.num_heads = 4;
  config.num_kv_heads = 2;
  config.head_dim = config.rotary_dim = std::max(32, tiny.hidden_size / 4);
  config.intermediate_size = tiny.hidden_size;
  config.validate();
  return config;
}

// How a run goes about it.
struct Way {
  int32_t batch = 1;  // requests at once
  int32_t budget = 64;
  int32_t threads = 1;
  int32_t overlap_depth = 0;
  int32_t num_rounds = 1;  // the same requests again and again: prefix hits
  bool is_tight = false;   // blocks for 1.5 sequences
  KvReuse reuse = KvReuse::kept;
};

struct What {
  TinyModel model;
  KvDType kv = KvDType::bf16;
  cpu::IsaLevel isa = cpu::IsaLevel::v3;
  bool is_on_gpu = false;
  int32_t num_requests = 8;
  int32_t prompt_tokens = 50;
  int32_t max_tokens = 36;
  bool is_preempted = true;  // in the tight way
};

struct Answers {
  std::map<LogitsKey, std::vector<float>> logits;
  std::map<RequestId, std::vector<int32_t>> tokens;
  int64_t preemptions = 0;
  int64_t cached_tokens = 0;
};

std::unique_ptr<Backend> backend_of(const What& what, const Way& way) {
#if PAGODA_HAS_CUDA
  if (what.is_on_gpu) return cuda::make_cuda_backend({});
#endif
  return cpu::make_cpu_backend({.num_threads = way.threads, .isa = what.isa});
}

Request request_of(const What& what, int32_t i) {
  Request request;
  request.max_tokens = what.max_tokens;
  request.ignores_eos = true;
  // A prefix that all share, then their own; lengths around whole blocks.
  for (int32_t t = 0; t < what.prompt_tokens - 2 * i; t++)
    request.prompt.push_back((t < what.prompt_tokens - 15 ? t * 7 : t * (i + 3)) % 97);
  request.priority = -i;
  request.sampling.temperature = i % 2 == 0 ? 0.f : 0.9f;
  request.sampling.seed = uint64_t(100 + i);
  return request;
}

class TinyEngine {
 public:
  TinyEngine(const What& what, const Way& way)
      : max_len_(what.prompt_tokens + what.max_tokens),
        backend_(backend_of(what, way)),
        recorder_(*backend_),
        config_(config_of(what.model)),
        layout_(make_kv_layout(config_.kv_specs(), what.kv, 0)) {
    const int64_t one = layout_.blocks_of_sequence(max_len_, way.budget);
    const int64_t num_blocks = way.is_tight ? one * 3 / 2 : one * way.batch * 2;
    model_ = std::make_unique<Model>(*backend_,
                                     config_,
                                     dummy_weights(config_, what.model.weights, 5, *backend_),
                                     ModelLimits{.max_tokens = way.budget,
                                                 .max_seqs = way.batch,
                                                 .max_logit_rows = way.batch,
                                                 .max_context = max_len_});
    storage_ = std::make_unique<KvStorage>(*backend_, layout_, num_blocks);
    const KvCacheOptions kv = KvCacheOptions::of(layout_, num_blocks, true);
    const SchedulerOptions limits = {
        .max_num_seqs = way.batch, .token_budget = way.budget, .max_model_len = max_len_};
    executor_ =
        std::make_unique<ModelExecutor>(recorder_, *model_, *storage_, step_limits(limits, kv, 0));
    engine_ = std::make_unique<Engine>(EngineOptions{.max_model_len = max_len_,
                                                     .max_num_seqs = way.batch,
                                                     .max_num_batched_tokens = way.budget,
                                                     .max_logprobs = 0,
                                                     .overlap_depth = way.overlap_depth,
                                                     .kv_reuse = way.reuse,
                                                     .vocabulary = config_.vocab_size},
                                       kv,
                                       *executor_);
  }

  // Requests of a batch come together or, in the tight way, a few steps apart: each is more urgent
  // than those before it, and takes their blocks when it grows.
  void round(const What& what, const Way& way, Answers& answers) {
    for (int32_t first = 0; first < what.num_requests; first += way.batch) {
      for (int32_t i = first; i < std::min(first + way.batch, what.num_requests); i++) {
        Request request = request_of(what, i);
        request.id = RequestId(i);
        answers.tokens[request.id].clear();
        engine_->submit(std::move(request));
        for (int32_t steps = way.is_tight ? 5 : 0; steps > 0; steps--) step(answers);
      }
      while (!engine_->idle()) step(answers);
    }
    answers.logits = std::move(recorder_.logits);
    recorder_.logits.clear();
    answers.preemptions = engine_->stats().preemptions;
    answers.cached_tokens = engine_->stats().cached_tokens;
  }

 private:
  void step(Answers& answers) {
    for (const RequestOutput& output : engine_->step()) {
      EXPECT_EQ(output.error_message, "");
      std::vector<int32_t>& tokens = answers.tokens[output.id];
      tokens.insert(tokens.end(), output.token_ids.begin(), output.token_ids.end());
    }
  }

  int32_t max_len_;
  std::unique_ptr<Backend> backend_;
  RecordingBackend recorder_;
  ModelConfig config_;
  KvLayout layout_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<KvStorage> storage_;
  std::unique_ptr<ModelExecutor> executor_;
  std::unique_ptr<Engine> engine_;
};

// Of the last round.
Answers answers_of(const What& what, const Way& way) {
  TinyEngine engine(what, way);
  Answers answers;
  for (int32_t round = 0; round < way.num_rounds; round++) engine.round(what, way, answers);
  return answers;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// `got` may be of fewer requests and tokens.
void expect_same(const Answers& expected, const Answers& got, const char* way) {
  for (const auto& [id, tokens] : got.tokens) {
    const std::vector<int32_t>& all = expected.tokens.at(id);
    EXPECT_TRUE(std::equal(tokens.begin(), tokens.end(), all.begin())) << way << ": tokens";
  }
  ASSERT_FALSE(got.logits.empty()) << way;
  for (const auto& [key, logits] : got.logits)
    ASSERT_TRUE(same_bits(logits, expected.logits.at(key)))
        << way << ": request " << std::get<0>(key) << " position " << std::get<2>(key);
}

void check_every_way(const What& what) {
  const size_t num_tokens = size_t(what.num_requests) * what.max_tokens;
  const Answers alone = answers_of(what, {});
  ASSERT_EQ(alone.logits.size(), num_tokens);
  const auto expect = [&](const Way& way, const char* name) {
    const Answers got = answers_of(what, way);
    expect_same(alone, got, name);
    EXPECT_EQ(got.logits.size(), num_tokens) << name;
    return got;
  };
  expect({.budget = 1}, "chunks of 1");
  expect({.budget = 7}, "chunks of 7");
  expect({.batch = 8}, "batch of 8");
  expect({.batch = 8, .overlap_depth = 1}, "scheduled ahead");
  EXPECT_GT(expect({.batch = 8, .num_rounds = 2}, "after prefix hits").cached_tokens, 0);
  const Answers tight = expect({.batch = 8, .budget = 8, .is_tight = true}, "after preemption");
  EXPECT_TRUE(tight.preemptions > 0 || !what.is_preempted);
  // Fewer of them: a busy machine is slow to wake threads.
  What few = what;
  few.num_requests = 3;
  few.max_tokens = std::min(4, what.max_tokens);
  expect_same(alone, answers_of(few, {.batch = 3, .threads = 2}), "two threads");
}

const TinyModel kLlama = {.shape = "smollm2-135m"};
const TinyModel kGemma = {.shape = "gemma3-270m", .window = 24, .weights = DType::q4_0};

class Equality : public testing::TestWithParam<std::tuple<int, KvDType>> {
 protected:
  What what(const TinyModel& model) const {
    const KvDType kv = std::get<1>(GetParam());
    return {.model = model,
            .kv = kv,
            .isa = cpu::IsaLevel(std::get<0>(GetParam())),
            .prompt_tokens = kv == KvDType::int4 ? 110 : 50};
  }
  void SetUp() override {
    if (std::get<0>(GetParam()) > int(cpu::detected_isa()))
      GTEST_SKIP() << "this machine has no " << cpu::name(cpu::IsaLevel(std::get<0>(GetParam())));
  }
};

TEST_P(Equality, of_a_model_whose_layers_see_everything) {
  check_every_way(what(kLlama));
}

TEST_P(Equality, of_a_model_with_windows) {
  check_every_way(what(kGemma));
}

INSTANTIATE_TEST_SUITE_P(
    EveryIsaAndKvDType,
    Equality,
    testing::Combine(
        testing::Range(0, int(cpu::IsaLevel::v4_bf16) + 1),
        testing::Values(KvDType::f32, KvDType::f16, KvDType::bf16, KvDType::int8, KvDType::int4)),
    [](const auto& info) {
      std::string text = fmt::format("{}_{}",
                                     cpu::name(cpu::IsaLevel(std::get<0>(info.param))),
                                     name(std::get<1>(info.param)));
      for (char& c : text)
        if (c == '-') c = '_';
      return text;
    });

TEST(EqualityOfWeights, holds_for_every_dtype) {
  for (const DType dtype : kWeightDTypes) {
    SCOPED_TRACE(name(dtype));
    for (const cpu::IsaLevel isa : {cpu::IsaLevel::v3, cpu::detected_isa()})
      check_every_way({.model = {.shape = "smollm2-135m", .weights = dtype, .hidden_size = 256},
                       .isa = isa,
                       .num_requests = 4});
  }
}

TEST(EqualityOfLongContexts, holds_across_the_chunks_of_keys) {
  for (const KvDType kv : {KvDType::bf16, KvDType::int8, KvDType::int4})
    check_every_way({.model = kLlama,
                     .kv = kv,
                     .isa = cpu::detected_isa(),
                     .num_requests = 3,
                     .prompt_tokens = 530,
                     .max_tokens = 4,
                     .is_preempted = false});
}

TEST(EqualityTest, sees_a_difference_where_there_is_one) {
  What what = {.model = kLlama, .kv = KvDType::bf16, .num_requests = 1};
  const Answers bf16 = answers_of(what, {});
  what.kv = KvDType::f16;
  const Answers f16 = answers_of(what, {});
  int64_t num_different = 0;
  for (const auto& [key, logits] : bf16.logits)
    num_different += !f16.logits.contains(key) || !same_bits(logits, f16.logits.at(key));
  EXPECT_EQ(num_different, what.max_tokens);
}

TEST(EqualityWithoutKvCache, recomputing_every_prefix_gives_the_same_bits) {
  for (const TinyModel& model : {kLlama, kGemma}) {
    const What what = {.model = model,
                       .isa = cpu::detected_isa(),
                       .num_requests = 3,
                       .prompt_tokens = 40,
                       .max_tokens = 8};
    expect_same(
        answers_of(what, {}), answers_of(what, {.reuse = KvReuse::recomputed}), "recomputed");
  }
}

#if PAGODA_HAS_CUDA
// Prompt and sampling rows have an arithmetic each there.
TEST(EqualityOnAGpu, holds_for_models_and_weights) {
  if (cuda::num_devices() == 0) GTEST_SKIP() << "no GPU here";
  for (TinyModel model : {kLlama, kGemma})
    for (const DType weights : {DType::bf16, DType::q8_0, DType::q4_k}) {
      model.weights = weights;
      model.hidden_size = 256;  // heads of 64
      SCOPED_TRACE(fmt::format("{} {}", model.shape, name(weights)));
      const What what = {.model = model, .is_on_gpu = true};
      check_every_way(what);
      expect_same(
          answers_of(what, {}), answers_of(what, {.reuse = KvReuse::recomputed}), "recomputed");
    }
}

TEST(EqualityOnAGpu, holds_across_the_chunks_of_keys) {
  if (cuda::num_devices() == 0) GTEST_SKIP() << "no GPU here";
  check_every_way({.model = {.shape = "smollm2-135m", .hidden_size = 256},
                   .is_on_gpu = true,
                   .num_requests = 3,
                   .prompt_tokens = 530,
                   .max_tokens = 4,
                   .is_preempted = false});
}
#endif

}  // namespace
}  // namespace pagoda
