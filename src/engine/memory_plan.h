// MemoryPlan: every byte of size that a deployment will take, known before anything is loaded. A
// pure function of the model's description and the settings; Deployment allocates by it, and what
// its allocator then counts equals it, tag by tag.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "backend/backend.h"
#include "base/buffer.h"
#include "engine/settings.h"
#include "kv/layout.h"
#include "model/config.h"
#include "model/model.h"

namespace pagoda {

// What the plan needs to know of the model besides its config.
struct ModelSizes {
  int64_t weights_bytes = 0;
  int64_t vocabulary_bytes = 0;
};

struct MemoryPlan {
  int32_t max_model_len = 0;
  int32_t max_num_seqs = 0;
  ModelLimits limits;  // of a step
  KvLayout kv_layout;
  int64_t num_blocks = 0;

  int64_t bytes[kNumMemoryTags] = {};  // by MemoryTag
  int64_t of(MemoryTag tag) const { return bytes[static_cast<int>(tag)]; }
  int64_t total() const;
  // Of the total: what lies in the backend's memory. The vocabulary is the host's, on a GPU too.
  int64_t backend_total() const;

  bool uses_host_memory = true;  // the backend's memory is the host's
  int64_t machine_bytes = 0;     // free memory of the machine, or of its GPU, when it was planned
  int64_t blocks_per_sequence = 0;  // of max_model_len tokens
  int64_t max_context = 0;  // longest single sequence that the KV memory holds, at most the model's
  int64_t max_sequences_at_context() const { return num_blocks / blocks_per_sequence; }
  // Sequences of max_model_len that `available_bytes` would hold beside weights and workspace.
  int64_t sequences_within(int64_t available_bytes) const;
};

// `machine_bytes`: available_memory_bytes(backend). Throws Error: "usage.*" for settings that
// contradict the model, "kv.alloc_failed" for KV memory that holds no sequence, "cuda.unsupported".
MemoryPlan make_memory_plan(const ModelConfig& config,
                            const ModelSizes& sizes,
                            const EngineSettings& settings,
                            const Backend& backend,
                            int64_t machine_bytes);
// Throws Error{"kv.alloc_failed"} with need, limit and a setting that would work when the machine
// has less than the plan takes of it.
void check_fits(const MemoryPlan& plan);

// The KV dtypes of a backend, by its name: fp8 is a GPU's, f32 a CPU's.
std::span<const KvDType> kv_dtypes_of(std::string_view backend_name);
// What "auto" means: bf16 on a GPU and where the CPU multiplies it, else f16. Throws
// Error{"usage.kv_cache_dtype"} for a dtype that the backend has not.
KvDType resolve_kv_dtype(const EngineSettings& settings, const Backend& backend);

// Memory that this process may still take: MemAvailable, within its cgroup's limit; of a backend
// with memory of its own, that.
int64_t available_memory_bytes();
int64_t available_memory_bytes(const Backend& backend);

}  // namespace pagoda
