// EngineSettings: what a person may choose about a deployment, as the engine flags of the command
// line spell it; zero or "auto" means "decide for me". Plain values; engine/memory_plan turns them
// into sizes.
#pragma once

#include <cstdint>
#include <string>

#include "backend/op_args.h"

namespace pagoda {

enum class LoadFormat : uint8_t { automatic, dummy };  // dummy: random weights of the right shapes

struct EngineSettings {
  std::string device = "auto";          // auto, cpu, cuda, cuda:N
  int32_t threads = 0;                  // CPU threads
  int32_t max_model_len = 0;            // tokens of one sequence
  std::string kv_cache_dtype = "auto";  // auto, f32, f16, bf16, int8, int4, fp8
  int64_t kv_cache_memory_bytes = 0;
  int32_t block_size = 0;              // tokens in a KV block
  int32_t max_num_seqs = 0;            // sequences that run at once
  int32_t max_num_batched_tokens = 0;  // token budget of a step
  bool enable_prefix_caching = true;
  LoadFormat load_format = LoadFormat::automatic;
  uint64_t seed = 0;
  bool no_kv_cache = false;  // recompute the whole prefix for each token
  AttentionAlgorithm attention = AttentionAlgorithm::flash;
};

}  // namespace pagoda
