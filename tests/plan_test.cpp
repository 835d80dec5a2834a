// The plan is the allocation: what `pagoda plan` says before loading equals, tag by tag and to the
// byte, what the one allocator counts when the model is loaded and has answered.
#include <gtest/gtest.h>

#include <filesystem>

#include "app/model_path.h"
#include "engine/deployment.h"
#include "model/shapes.h"

namespace pagoda {
namespace {

namespace fs = std::filesystem;

MemoryPlan planned(const ModelSource& source, const EngineSettings& settings) {
  const auto backend = make_backend(settings);
  return make_memory_plan(source.description.config,
                          source.sizes(*backend),
                          settings,
                          *backend,
                          available_memory_bytes(*backend));
}

void answer_something(Deployment& deployment) {
  Request request;
  request.id = 1;
  request.prompt = {1, 2, 3, 4, 5, 6, 7};
  request.sampling.temperature = 0.7f;
  request.max_tokens = 4;
  deployment.engine().submit(std::move(request));
  while (!deployment.engine().idle()) deployment.engine().step();
}

void expect_equal(const MemoryPlan& plan, Deployment& deployment) {
  answer_something(deployment);
  const Allocator& allocator = deployment.backend().allocator();
  for (int i = 0; i < kNumMemoryTags; i++)
    EXPECT_EQ(allocator.allocated(MemoryTag(i)), plan.bytes[i]) << kMemoryTagNames[i];
  EXPECT_EQ(allocator.allocated(), plan.total());
}

TEST(Plan, is_the_allocation_of_real_models) {
  for (const char* name : {"smollm2-135m", "gemma-3-270m"}) {
    const fs::path path = models_folder() / (std::string(name) + ".gguf");
    if (!fs::exists(path)) GTEST_SKIP() << "scripts/fetch-model gets " << name;
    for (const char* dtype : {"f32", "f16", "bf16", "int8", "int4"}) {
      for (const int32_t length : {100, 2048}) {
        SCOPED_TRACE(std::string(name) + " " + dtype + " " + std::to_string(length));
        EngineSettings settings;
        settings.kv_cache_dtype = dtype;
        settings.max_model_len = length;
        settings.max_num_seqs = length == 100 ? 5 : 1;
        const MemoryPlan plan = planned(open_model(path), settings);
        Deployment deployment(open_model(path), settings, nullptr);
        expect_equal(plan, deployment);
      }
    }
  }
}

TEST(Plan, is_the_allocation_of_shapes_with_random_weights) {
  ModelConfig config = *shape_named("gemma3-27b");
  config.num_layers = 8;
  config.layers.resize(8);
  config.vocab_size = 1003;
  config.hidden_size = 96;
  config.num_heads = 6;
  config.num_kv_heads = 2;
  config.head_dim = config.rotary_dim = 80;
  config.intermediate_size = 160;
  for (const int32_t block_size : {16, 64}) {
    for (const int64_t memory : {int64_t{0}, int64_t{64} << 20}) {
      EngineSettings settings;
      settings.load_format = LoadFormat::dummy;
      settings.block_size = block_size;
      settings.max_model_len = 1500;
      settings.max_num_seqs = 3;
      settings.threads = 3;
      settings.kv_cache_memory_bytes = memory;
      const MemoryPlan plan = planned(model_of_shape(config), settings);
      Deployment deployment(model_of_shape(config), settings, nullptr);
      expect_equal(plan, deployment);
    }
  }
}

}  // namespace
}  // namespace pagoda
