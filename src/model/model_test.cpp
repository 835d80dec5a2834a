#include "model/model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <numeric>

#include "backend/reference.h"
#include "base/error.h"
#include "formats/gguf_writer.h"
#include "model/cost.h"
#include "model/families.h"
#include "model/shapes.h"

namespace pagoda {
namespace {

namespace fs = std::filesystem;

ModelConfig tiny_config(int32_t window) {
  ModelConfig c = *shape_named(window == 0 ? "smollm2-135m" : "gemma3-270m");
  c.vocab_size = 97;
  c.hidden_size = 64;
  c.num_layers = 7;
  c.layers.resize(7);
  for (LayerConfig& layer : c.layers)
    if (layer.window > 0) layer.window = window;
  c.num_heads = 4;
  c.num_kv_heads = 2;
  c.head_dim = c.rotary_dim = 32;
  c.intermediate_size = 96;
  c.validate();
  return c;
}

// One sequence over its own blocks, fed in chunks; the logits of the last token.
class Runner {
 public:
  explicit Runner(const ModelConfig& config)
      : backend_(make_reference_backend()),
        model_(*backend_,
               config,
               dummy_weights(config, DType::bf16, 3, *backend_),
               {.max_tokens = 64, .max_seqs = 1, .max_logit_rows = 1, .max_context = 64}),
        format_{KvDType::f32, 16, config.head_dim, config.head_dim},
        group_of_layer_(config.num_layers, 0),
        table_{3, 1, 0, 2} {
    const int64_t layer_bytes = 4 * config.num_kv_heads * format_.head_bytes();
    kv_ = backend_->allocator().allocate(layer_bytes * config.num_layers, MemoryTag::kv);
    for (int32_t i = 0; i < config.num_layers; i++)
      layers_.push_back({kv_.data() + i * layer_bytes, 4, config.num_kv_heads, format_});
  }

  std::vector<float> run(const std::vector<int32_t>& ids, size_t chunk) {
    for (size_t begin = 0; begin < ids.size(); begin += chunk)
      step(std::span(ids).subspan(begin, std::min(chunk, ids.size() - begin)), int32_t(begin));
    std::vector<float> logits(model_.config().vocab_size);
    const int32_t last = last_row_;
    model_.logits(
        std::span(&last, 1),
        TensorView(
            reinterpret_cast<std::byte*>(logits.data()), DType::f32, {1, int64_t(logits.size())}));
    return logits;
  }

 private:
  void step(std::span<const int32_t> ids, int32_t begin) {
    const auto T = int32_t(ids.size());
    std::vector<int32_t> positions(T), slots(T);
    std::iota(positions.begin(), positions.end(), begin);
    for (int32_t t = 0; t < T; t++) slots[t] = table_[(begin + t) / 16] * 16 + (begin + t) % 16;
    const std::vector<int32_t> cu_q_lens = {0, T}, kv_lens = {begin + T};
    const GroupBatch group{slots, {cu_q_lens, kv_lens, table_, 4, cu_q_lens, kv_lens}};
    model_.forward({.token_ids = ids,
                    .positions = positions,
                    .groups = std::span(&group, 1),
                    .group_of_layer = group_of_layer_},
                   layers_);
    last_row_ = T - 1;
  }

  std::unique_ptr<Backend> backend_;
  Model model_;
  KvFormat format_;
  std::vector<int32_t> group_of_layer_;
  std::vector<int32_t> table_;
  Buffer kv_;
  std::vector<KvView> layers_;
  int32_t last_row_ = 0;
};

TEST(Model, chunks_change_nothing) {
  for (const int32_t window : {0, 9}) {
    const ModelConfig config = tiny_config(window);
    std::vector<int32_t> ids(41);
    for (size_t i = 0; i < ids.size(); i++) ids[i] = int32_t(i * 31 % config.vocab_size);
    const std::vector<float> whole = Runner(config).run(ids, ids.size());
    EXPECT_EQ(Runner(config).run(ids, 1), whole);
    EXPECT_EQ(Runner(config).run(ids, 7), whole);
  }
}

TEST(Model, every_earlier_token_matters) {
  const ModelConfig config = tiny_config(0);
  std::vector<int32_t> ids(20, 5);
  const std::vector<float> before = Runner(config).run(ids, 20);
  ids[0] = 6;
  const std::vector<float> after = Runner(config).run(ids, 20);
  float change = 0;
  for (size_t i = 0; i < before.size(); i++)
    change = std::max(change, std::abs(before[i] - after[i]));
  EXPECT_GT(change, 1e-4f);
  for (const float x : before) EXPECT_TRUE(std::isfinite(x));
}

TEST(Model, allocates_what_its_cost_functions_say) {
  const ModelConfig config = tiny_config(9);
  const ModelLimits limits{.max_tokens = 24, .max_seqs = 3, .max_logit_rows = 3, .max_context = 64};
  for (const DType dtype : {DType::f32, DType::bf16, DType::q8_0, DType::q4_0}) {
    auto backend = make_reference_backend();
    Model model(*backend, config, dummy_weights(config, dtype, 1, *backend), limits);
    EXPECT_EQ(backend->allocator().allocated(MemoryTag::weights),
              weights_bytes(config, dtype, *backend));
    EXPECT_EQ(backend->allocator().allocated(MemoryTag::workspace),
              activation_layout(config, limits, DType::f32).total +
                  backend->workspace_bytes(workspace_shape(config, limits)));
  }
}

TEST(RopeFrequencies, follow_the_scaling_rules) {
  RopeConfig rope{.theta = 5e5f};
  const auto plain = rope_frequencies(rope, 128).inv_freq;
  EXPECT_EQ(plain[0], 1.f);
  EXPECT_NEAR(plain[63], std::pow(5e5, -126.0 / 128), 1e-12);
  rope.scaling = RopeScaling::llama3;
  rope.factor = 8;
  rope.original_context = 8192;
  const auto scaled = rope_frequencies(rope, 128).inv_freq;
  EXPECT_EQ(scaled[0], plain[0]);              // short wavelengths are kept
  EXPECT_FLOAT_EQ(scaled[63], plain[63] / 8);  // long ones slowed
  rope.scaling = RopeScaling::yarn;
  EXPECT_NEAR(rope_frequencies(rope, 128).magnitude, 0.1 * std::log(8.0) + 1, 1e-6);
}

// ---- families
// ------------------------------------------------------------------------------------

class LlamaFile {
 public:
  LlamaFile() {
    writer_.set("general.architecture", "llama");
    set("embedding_length", 64);
    set("block_count", 1);
    set("attention.head_count", 4);
    set("attention.head_count_kv", 2);
    set("feed_forward_length", 96);
    set("context_length", 128);
    writer_.set("llama.attention.layer_norm_rms_epsilon", 1e-5f);
    add("token_embd.weight", {97, 64});
    add("output_norm.weight", {64});
    add("blk.0.attn_norm.weight", {64});
    add("blk.0.ffn_norm.weight", {64});
    add("blk.0.attn_q.weight", {64, 64});
    add("blk.0.attn_v.weight", {32, 64});
    add("blk.0.attn_output.weight", {64, 64});
    add("blk.0.ffn_gate.weight", {96, 64});
    add("blk.0.ffn_up.weight", {96, 64});
    add("blk.0.ffn_down.weight", {64, 96});
  }
  void add(const std::string& name, const std::vector<int64_t>& shape) {
    int64_t n = 1;
    for (const int64_t d : shape) n *= d;
    std::vector<float> values(n, 0.01f);
    writer_.add_copy(name, DType::f32, shape, std::as_bytes(std::span(values)));
  }
  // The kind of the error of loading it, or "" when it loads.
  std::string load() {
    const fs::path path = fs::path(testing::TempDir()) / "pagoda_model_test.gguf";
    writer_.write(path);
    try {
      const auto checkpoint = open_checkpoint(path);
      const ModelDescription d = describe_model(*checkpoint);
      auto backend = make_reference_backend();
      const ModelWeights weights = load_weights(d.config, d.names, *checkpoint, *backend, nullptr);
      EXPECT_EQ(backend->allocator().allocated(MemoryTag::weights),
                weights_bytes(d.config, d.names, *checkpoint, *backend));
      return "";
    } catch (const Error& e) {
      return e.kind();
    }
  }

 private:
  void set(const std::string& key, uint32_t value) { writer_.set("llama." + key, value); }
  GgufWriter writer_;
};

TEST(Families, a_whole_file_loads) {
  LlamaFile file;
  file.add("blk.0.attn_k.weight", {32, 64});
  EXPECT_EQ(file.load(), "");
}

TEST(Families, a_missing_tensor_is_named) {
  EXPECT_EQ(LlamaFile().load(), "model.missing_tensor");
}

TEST(Families, a_tensor_of_another_shape_is_refused) {
  LlamaFile file;
  file.add("blk.0.attn_k.weight", {64, 32});
  EXPECT_EQ(file.load(), "model.bad_shape");
}

TEST(Families, an_unknown_architecture_is_refused) {
  const fs::path path = fs::path(testing::TempDir()) / "pagoda_unknown.gguf";
  GgufWriter writer;
  writer.set("general.architecture", "perceptron");
  writer.write(path);
  try {
    describe_model(*open_checkpoint(path));
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), "model.unsupported_family");
    EXPECT_NE(e.message().find("gemma3"), std::string::npos);
  }
}

TEST(Shapes, all_are_valid_models) {
  for (const std::string& name : shape_names())
    EXPECT_NO_THROW(shape_named(name)->validate()) << name;
  EXPECT_FALSE(shape_named("no-such-model").has_value());
}

}  // namespace
}  // namespace pagoda
