// What a model's activations take, as pure functions of its config: the plan prints them and Model
// allocates by them.
#pragma once

#include <cstdint>

#include "backend/backend.h"
#include "model/config.h"

namespace pagoda {

struct ModelLimits;

// Offsets of the activations inside one buffer, each aligned to 64 bytes.
struct ActivationLayout {
  int64_t residual, normed, qkv, attended, projected, gate_up, gated, gathered;
  int64_t angles;  // first rope's; the next follow angles_bytes apart
  int64_t angles_bytes;
  int64_t total;
};
ActivationLayout activation_layout(const ModelConfig& config,
                                   const ModelLimits& limits,
                                   DType activation_dtype);

// Bytes of the logits of a step's sampling rows, [R, V] f32 (MemoryTag::logits; the executor takes
// them).
int64_t logits_bytes(const ModelConfig& config, const ModelLimits& limits);

// What Model asks of Backend::reserve_workspace.
WorkspaceShape workspace_shape(const ModelConfig& config, const ModelLimits& limits);

}  // namespace pagoda
