#include "engine/memory_plan.h"

#include <algorithm>
#include <fstream>
#include <string>

#include "base/checked.h"
#include "base/error.h"
#include "engine/step_arrays.h"
#include "model/cost.h"

namespace pagoda {
namespace {

constexpr int32_t kDefaultMaxModelLen = 8192;
constexpr int32_t kDefaultBatchedTokens = 512;

int32_t resolve_max_model_len(const ModelConfig& config, const EngineSettings& settings) {
  if (settings.max_model_len > config.max_context)
    throw Error("usage.max_model_len",
                "--max-model-len {} is more than the model's context of {} tokens",
                settings.max_model_len,
                config.max_context);
  return settings.max_model_len > 0 ? settings.max_model_len
                                    : std::min(config.max_context, kDefaultMaxModelLen);
}

// The KV blocks: those of the memory that was given, or enough for every sequence at full length.
int64_t resolve_num_blocks(const MemoryPlan& plan, const EngineSettings& settings) {
  const int64_t one = plan.blocks_per_sequence;
  if (settings.kv_cache_memory_bytes == 0)
    return (Checked(one) * int64_t{plan.max_num_seqs}).value("kv.size_overflow", "KV blocks");
  const int64_t blocks = kv_blocks_within(plan.kv_layout, settings.kv_cache_memory_bytes);
  if (blocks >= one) return blocks;
  const int64_t fitting =
      plan.kv_layout.tokens_within(blocks, plan.limits.max_tokens, plan.max_model_len);
  throw Error("kv.alloc_failed",
              "--kv-cache-memory-bytes {} holds {} blocks of {} bytes, but one sequence of {} "
              "tokens needs {} ({} bytes); raise it{}",
              settings.kv_cache_memory_bytes,
              blocks,
              plan.kv_layout.block_bytes(),
              plan.max_model_len,
              one,
              kv_bytes(plan.kv_layout, one),
              fitting == 0 ? "" : fmt::format(", or use --max-model-len {}", fitting));
}

std::string what_would_fit(const MemoryPlan& plan, int64_t tokens) {
  if (tokens > 0) return fmt::format("one sequence of --max-model-len {} would fit", tokens);
  if (plan.of(MemoryTag::weights) > plan.machine_bytes)
    return "the weights alone are too large for this machine";
  return fmt::format("{} are for a step of {} tokens: lower --max-num-batched-tokens",
                     plan.of(MemoryTag::workspace),
                     plan.limits.max_tokens);
}

int64_t number_in(const std::string& path) {
  std::ifstream in(path);
  int64_t number = 0;
  return in >> number ? number : INT64_MAX;  // "max", or no such file
}

}  // namespace

int64_t MemoryPlan::total() const {
  int64_t sum = 0;
  for (const int64_t part : bytes) sum += part;
  return sum;
}

int64_t MemoryPlan::backend_total() const {
  return uses_host_memory ? total() : total() - of(MemoryTag::vocabulary);
}

int64_t MemoryPlan::sequences_within(int64_t available_bytes) const {
  const int64_t left = available_bytes - (backend_total() - of(MemoryTag::kv));
  return left <= 0 ? 0 : kv_blocks_within(kv_layout, left) / blocks_per_sequence;
}

std::span<const KvDType> kv_dtypes_of(std::string_view backend_name) {
  static constexpr KvDType kOfCpu[] = {
      KvDType::f32, KvDType::f16, KvDType::bf16, KvDType::int8, KvDType::int4};
  static constexpr KvDType kOfGpu[] = {
      KvDType::f16, KvDType::bf16, KvDType::fp8, KvDType::int8, KvDType::int4};
  if (backend_name.starts_with("cuda")) return kOfGpu;
  return kOfCpu;
}

KvDType resolve_kv_dtype(const EngineSettings& settings, const Backend& backend) {
  const bool is_cpu = backend.name().starts_with("cpu");
  if (settings.kv_cache_dtype == "auto")
    return is_cpu && backend.name().find("bf16") == std::string::npos ? KvDType::f16
                                                                      : KvDType::bf16;
  const std::optional<KvDType> dtype = kv_dtype_named(settings.kv_cache_dtype);
  if (!dtype)
    throw Error(
        "usage.kv_cache_dtype", "--kv-cache-dtype: unknown dtype {}", settings.kv_cache_dtype);
  const auto there = kv_dtypes_of(backend.name());
  if (std::find(there.begin(), there.end(), *dtype) != there.end()) return *dtype;
  if (*dtype == KvDType::fp8)
    throw Error("usage.kv_cache_dtype",
                "--kv-cache-dtype fp8 needs a GPU; on a CPU use int8, int4 or bf16");
  throw Error("usage.kv_cache_dtype",
              "--kv-cache-dtype {} needs a CPU; on a GPU use bf16, f16, fp8, int8 or int4",
              name(*dtype));
}

MemoryPlan make_memory_plan(const ModelConfig& config,
                            const ModelSizes& sizes,
                            const EngineSettings& settings,
                            const Backend& backend,
                            int64_t machine_bytes) {
  MemoryPlan plan;
  plan.uses_host_memory = backend.uses_host_memory();
  plan.machine_bytes = machine_bytes;
  plan.max_model_len = resolve_max_model_len(config, settings);
  plan.max_num_seqs = std::max(settings.max_num_seqs, 1);
  const int32_t budget =
      settings.max_num_batched_tokens > 0 ? settings.max_num_batched_tokens : kDefaultBatchedTokens;
  if (settings.max_num_batched_tokens > 0 && budget < plan.max_num_seqs)
    throw Error("usage.max_num_batched_tokens",
                "--max-num-batched-tokens {} is less than --max-num-seqs {}: each running sequence "
                "needs a token",
                budget,
                plan.max_num_seqs);
  plan.limits = {.max_tokens = std::max(budget, plan.max_num_seqs),
                 .max_seqs = plan.max_num_seqs,
                 .max_logit_rows = plan.max_num_seqs,
                 .max_context = plan.max_model_len,
                 .kv_dtype = resolve_kv_dtype(settings, backend)};
  plan.kv_layout = make_kv_layout(config.kv_specs(), plan.limits.kv_dtype, settings.block_size);
  plan.blocks_per_sequence =
      plan.kv_layout.blocks_of_sequence(plan.max_model_len, plan.limits.max_tokens);
  plan.num_blocks = resolve_num_blocks(plan, settings);
  plan.max_context =
      plan.kv_layout.tokens_within(plan.num_blocks, plan.limits.max_tokens, config.max_context);

  auto set = [&](MemoryTag tag, int64_t bytes) { plan.bytes[static_cast<int>(tag)] = bytes; };
  set(MemoryTag::weights, sizes.weights_bytes);
  set(MemoryTag::vocabulary, sizes.vocabulary_bytes);
  set(MemoryTag::kv, kv_bytes(plan.kv_layout, plan.num_blocks));
  const StepArrays::Sizes arrays = {
      .max_tokens = plan.limits.max_tokens,
      .max_seqs = plan.max_num_seqs,
      .max_blocks = static_cast<int32_t>(ceil_div(plan.max_model_len, plan.kv_layout.block_size)),
      .num_groups = static_cast<int32_t>(plan.kv_layout.groups.size())};
  set(MemoryTag::workspace,
      activation_layout(config, plan.limits, backend.activation_dtype()).total +
          backend.workspace_bytes(workspace_shape(config, plan.limits)) +
          StepArrays::num_bytes(backend, arrays));
  set(MemoryTag::logits, logits_bytes(config, plan.limits));
  return plan;
}

void check_fits(const MemoryPlan& plan) {
  const int64_t need = plan.backend_total(), available = plan.machine_bytes;
  if (need <= available) return;
  const int64_t left = available - (need - plan.of(MemoryTag::kv));
  const int64_t blocks = left > 0 ? kv_blocks_within(plan.kv_layout, left) : 0;
  const int64_t tokens =
      plan.kv_layout.tokens_within(blocks, plan.limits.max_tokens, plan.max_model_len);
  throw Error("kv.alloc_failed",
              "{} bytes are needed ({} of them for the KV cache) and {} are available; {}",
              need,
              plan.of(MemoryTag::kv),
              available,
              what_would_fit(plan, tokens));
}

int64_t available_memory_bytes(const Backend& backend) {
  const int64_t bytes = backend.available_bytes();
  return bytes > 0 ? bytes : available_memory_bytes();
}

int64_t available_memory_bytes() {
  int64_t available = INT64_MAX;
  std::ifstream meminfo("/proc/meminfo");
  for (std::string key; meminfo >> key;) {
    if (key == "MemAvailable:") {
      int64_t kib = 0;
      meminfo >> kib;
      available = kib * 1024;
      break;
    }
    meminfo.ignore(1 << 10, '\n');
  }
  const int64_t v2 = number_in("/sys/fs/cgroup/memory.max");
  const int64_t v1 = number_in("/sys/fs/cgroup/memory/memory.limit_in_bytes");
  const int64_t used = v2 != INT64_MAX   ? number_in("/sys/fs/cgroup/memory.current")
                       : v1 != INT64_MAX ? number_in("/sys/fs/cgroup/memory/memory.usage_in_bytes")
                                         : INT64_MAX;
  const int64_t limit = std::min(v2, v1);
  if (limit != INT64_MAX && used != INT64_MAX)
    available = std::min(available, std::max<int64_t>(limit - used, 0));
  return available;
}

}  // namespace pagoda
