// BatchBuilder: a SchedulerOutput as the flat arrays of a StepInput. Writes into memory that was
// sized for the largest step; nothing grows.
#pragma once

#include "engine/scheduler.h"
#include "engine/step.h"
#include "kv/kv_cache.h"

namespace pagoda {

// The largest step that these options can make.
StepLimits step_limits(const SchedulerOptions& options,
                       const KvCacheOptions& kv,
                       int32_t max_logprobs);

class BatchBuilder {
 public:
  BatchBuilder(const StepLimits& limits, int32_t block_size);

  // Notes in each sequence the sample row whose token will be its next. `input` refers to the
  // sequences' samplers until the step has returned.
  void build(const SchedulerOutput& output,
             const KvCache::StepBlocks& blocks,
             StepInput& input) const;

 private:
  void add_tokens(const ScheduledTokens& row, StepInput& input) const;
  void add_tables(const ScheduledTokens& row, StepInput& input) const;
  void add_samples(const ScheduledTokens& row, StepInput& input) const;

  StepLimits limits_;
  int32_t block_size_;
};

}  // namespace pagoda
