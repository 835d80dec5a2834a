// What `pagoda plan` prints: a memory plan as text or as JSON, and the table of every KV dtype side
// by side.
#pragma once

#include <string>
#include <vector>

#include "engine/memory_plan.h"

namespace pagoda {

std::string plan_text(const ModelConfig& config, const MemoryPlan& plan);
std::string plan_json(const ModelConfig& config, const MemoryPlan& plan);

// One plan a dtype, of the same model and settings.
std::string plan_table_text(const ModelConfig& config, const std::vector<MemoryPlan>& plans);
std::string plan_table_json(const ModelConfig& config, const std::vector<MemoryPlan>& plans);

// "1.5625 GiB", "96.0 KiB", "12 B".
std::string human_bytes(int64_t bytes);

}  // namespace pagoda
