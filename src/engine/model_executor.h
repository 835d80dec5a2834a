// ModelExecutor: runs steps on a model: block zeroing and copies, forward pass, logits of the rows
// that draw a token, sampling.
//
// Owns the logits buffer (MemoryTag::logits); backend, model and storage must outlive it. A step is
// run whole by submit(); its result is kept until wait(). The StepInput's arrays are read where
// they are, or sent to the backend's memory first (StepArrays).
#pragma once

#include <optional>
#include <vector>

#include "backend/backend.h"
#include "engine/executor.h"
#include "engine/step_arrays.h"
#include "kv/kv_storage.h"
#include "model/model.h"

namespace pagoda {

class ModelExecutor final : public Executor {
 public:
  // `limits` as of Engine::step_limits(); `vocabulary`: columns of the logits. Throws
  // Error{"memory.alloc_failed"}.
  ModelExecutor(Backend& backend,
                Model& model,
                KvStorage& storage,
                const StepLimits& limits,
                AttentionAlgorithm algorithm = AttentionAlgorithm::flash);

  Ticket submit(const StepInput& input) override;
  void wait(Ticket ticket, StepResult& result) override;

  // Its own buffers, for who runs steps of his own on the same model while this one runs none.
  StepArrays& arrays() { return arrays_; }
  const Buffer& logits_buffer() const { return logits_; }

 private:
  struct Done {
    Ticket ticket = 0;
    StepResult result;
  };
  void fill_late_tokens(const StepInput& input);
  ForwardBatch batch_of(const StepInput& input);
  void run(const StepInput& input, StepResult& result);

  Backend& backend_;
  Model& model_;
  KvStorage& storage_;
  StepLimits limits_;
  AttentionAlgorithm algorithm_;
  Buffer logits_;  // [R, V] f32
  StepArrays arrays_;
  std::span<const int32_t> logit_rows_;  // [R] of this step
  std::vector<int32_t> token_ids_;       // [T] with late tokens filled in
  std::vector<GroupBatch> groups_;
  std::vector<std::vector<SharedKeys>> shared_;  // of each group; where a backend may use it
  std::vector<Done> done_;                       // of the last two steps
  Ticket next_ticket_ = 0;
  std::optional<Ticket> last_good_;  // the step before, unless it failed
};

}  // namespace pagoda
