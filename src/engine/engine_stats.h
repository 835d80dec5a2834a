// EngineStats: what the engine counts, for metrics and health. Written by the engine's thread,
// read by any.
#pragma once

#include <atomic>
#include <cstdint>

namespace pagoda {

struct EngineStats {
  using Counter = std::atomic<int64_t>;
  // Now.
  Counter num_running{0};    // sequences
  Counter num_waiting{0};    // sequences
  Counter blocks_used{0};    // referenced
  Counter blocks_cached{0};  // idle, holding a prefix
  Counter blocks_free{0};
  Counter heartbeat_us{0};  // when the last step ended
  // Since the start.
  Counter steps{0};
  Counter failed_steps{0};
  Counter preemptions{0};
  Counter prompt_tokens{0};    // of admitted requests
  Counter cached_tokens{0};    // of those, found in the prefix cache
  Counter computed_tokens{0};  // rows that went through the model
  Counter generated_tokens{0};
  Counter requests{0};
  Counter finished_stop{0};
  Counter finished_length{0};
  Counter finished_cancelled{0};
  Counter finished_error{0};
};

}  // namespace pagoda
