#include "engine/memory_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "backend/reference.h"
#include "base/error.h"
#include "engine/model_source.h"
#include "model/shapes.h"

namespace pagoda {
namespace {

MemoryPlan plan_of(const std::string& shape, EngineSettings settings, int64_t machine_bytes = 0) {
  const auto backend = make_reference_backend();
  const ModelSizes sizes = {.weights_bytes = 0, .vocabulary_bytes = 1 << 20};
  return make_memory_plan(*shape_named(shape), sizes, settings, *backend, machine_bytes);
}

EngineSettings settings_of(int32_t tokens, const std::string& dtype) {
  EngineSettings settings;
  settings.max_model_len = tokens;
  settings.kv_cache_dtype = dtype;
  return settings;
}

TEST(MemoryPlan, kv_sizes_are_those_of_the_formula) {
  // 2 * layers * kv_heads * head_dim * tokens * bytes, at 2048 tokens in f16.
  EXPECT_EQ(plan_of("llama2-7b", settings_of(2048, "f16")).of(MemoryTag::kv), int64_t{1} << 30);
  EXPECT_EQ(plan_of("llama2-13b", settings_of(2048, "f16")).of(MemoryTag::kv),
            int64_t(1.5625 * (1 << 30)));
  EXPECT_EQ(plan_of("llama2-70b", settings_of(2048, "f16")).of(MemoryTag::kv),
            int64_t(0.625 * (1 << 30)));
}

TEST(MemoryPlan, quantised_kv_counts_its_scales) {
  const int64_t values = int64_t{2} * 32 * 32 * 128 * 2048;
  const int64_t rows = int64_t{2} * 32 * 32 * 2048;  // (token, head) of K and of V
  EXPECT_EQ(plan_of("llama2-7b", settings_of(2048, "int8")).of(MemoryTag::kv), values + rows * 2);
  EXPECT_EQ(plan_of("llama2-7b", settings_of(2048, "int4")).of(MemoryTag::kv),
            values / 2 + rows * 2 * 4);
}

TEST(MemoryPlan, given_memory_is_cut_into_blocks_and_says_what_it_holds) {
  EngineSettings settings = settings_of(4096, "f16");
  settings.kv_cache_memory_bytes = int64_t{5} << 30;
  const MemoryPlan plan = plan_of("llama2-7b", settings);
  EXPECT_EQ(plan.max_sequences_at_context(), 2);
  EXPECT_EQ(plan.max_context, 4096);
  EXPECT_LE(plan.of(MemoryTag::kv), int64_t{5} << 30);
}

TEST(MemoryPlan, too_little_memory_is_refused_with_a_setting_that_works) {
  EngineSettings settings = settings_of(4096, "f16");
  settings.kv_cache_memory_bytes = int64_t{1} << 30;
  try {
    plan_of("llama2-7b", settings);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), "kv.alloc_failed");
    EXPECT_NE(e.message().find("--max-model-len 2048"), std::string::npos) << e.message();
  }
  EXPECT_THROW(check_fits(plan_of("llama2-7b", settings_of(4096, "f16"), int64_t{1} << 30)), Error);
}

TEST(MemoryPlan, a_gpu_does_not_hold_the_vocabulary) {
  MemoryPlan plan = plan_of("llama2-7b", settings_of(4096, "f16"));
  plan.machine_bytes = plan.total() - plan.of(MemoryTag::vocabulary);
  EXPECT_THROW(check_fits(plan), Error);
  EXPECT_EQ(plan.sequences_within(plan.machine_bytes), 0);
  plan.uses_host_memory = false;
  EXPECT_NO_THROW(check_fits(plan));
  EXPECT_EQ(plan.sequences_within(plan.machine_bytes), 1);
}

TEST(MemoryPlan, settings_beyond_the_model_are_refused) {
  EXPECT_THROW(plan_of("llama2-7b", settings_of(4097, "f16")), Error);
}

TEST(MemoryPlan, a_window_group_holds_a_window) {
  const MemoryPlan plan = plan_of("gemma3-270m", settings_of(32768, "bf16"));
  const int64_t all_full = int64_t{2} * 18 * 1 * 256 * 32768 * 2;
  EXPECT_LT(plan.of(MemoryTag::kv), all_full / 4);
}

TEST(KvDTypes, are_those_that_the_backend_takes) {
  using testing::ElementsAre;
  EXPECT_THAT(kv_dtypes_of("cuda (NVIDIA H200, sm_90)"),
              ElementsAre(KvDType::f16, KvDType::bf16, KvDType::fp8, KvDType::int8, KvDType::int4));
  const auto backend = make_reference_backend();
  const auto there = kv_dtypes_of(backend->name());
  for (const std::string_view dtype : kKvDTypeNames) {
    const EngineSettings settings = settings_of(100, std::string(dtype));
    if (std::find(there.begin(), there.end(), *kv_dtype_named(dtype)) == there.end())
      EXPECT_THROW(resolve_kv_dtype(settings, *backend), Error) << dtype;
    else
      EXPECT_EQ(resolve_kv_dtype(settings, *backend), *kv_dtype_named(dtype));
  }
}

TEST(GpuActivations, are_of_the_type_of_a_16_bit_cache) {
  EXPECT_EQ(gpu_activations(settings_of(100, "f16")), DType::f16);
  for (const char* dtype : {"auto", "bf16", "fp8", "int8", "int4"})
    EXPECT_EQ(gpu_activations(settings_of(100, dtype)), DType::bf16) << dtype;
}

TEST(AvailableMemory, is_a_plausible_number) {
  EXPECT_GT(available_memory_bytes(), int64_t{64} << 20);
  EXPECT_LT(available_memory_bytes(), int64_t{1} << 50);
}

}  // namespace
}  // namespace pagoda
