// Executor: runs steps. The seam between the engine and a device: the real one is ModelExecutor,
// the simulation has a fake, ranks of a parallel model would be another.
//
// Steps run in the order of submission; their results are waited for in that order. submit() may
// run the step at once or only start it; what `input` holds must stay until the step's wait() has
// returned. Either may throw Error: that step has no result, its KV bytes are undefined, and the
// next step still runs (a token_source of a failed step reads as token 0).
#pragma once

#include <cstdint>

#include "engine/step.h"

namespace pagoda {

using Ticket = uint64_t;

class Executor {
 public:
  virtual ~Executor() = default;
  virtual Ticket submit(const StepInput& input) = 0;
  virtual void wait(Ticket ticket, StepResult& result) = 0;
};

}  // namespace pagoda
