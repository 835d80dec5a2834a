#include "engine/engine_thread.h"

#include <utility>
#include <vector>

namespace pagoda {

RequestHandle::~RequestHandle() {
  if (engine_ != nullptr) engine_->abandon(id_);
}

void RequestHandle::cancel() {
  cancelled_->store(true, std::memory_order_relaxed);
}

void RequestHandle::swap(RequestHandle& other) noexcept {
  std::swap(engine_, other.engine_);
  std::swap(id_, other.id_);
  std::swap(outputs_, other.outputs_);
  std::swap(cancelled_, other.cancelled_);
}

EngineThread::EngineThread(Engine& engine)
    : engine_(engine),
      max_calls_(static_cast<size_t>(engine.options().max_num_seqs) +
                 static_cast<size_t>(engine.options().max_num_waiting)),
      messages_(max_calls_ + 16),  // and some control messages
      thread_([this] { loop(); }) {}

EngineThread::~EngineThread() {
  shut_down(Shutdown::cancel);
}

std::optional<RequestHandle> EngineThread::submit(Request request) {
  validate(request, engine_.request_limits());
  std::lock_guard lock(mutex_);
  if (is_closed_ || calls_.size() >= max_calls_) return std::nullopt;
  auto call = std::make_unique<Call>();
  Call& kept = *call;
  request.id = next_id_++;
  request.cancelled = &kept.cancelled;
  const RequestId id = request.id;
  if (!messages_.try_push(
          [this, request = std::move(request)](Engine&) mutable { take(std::move(request)); }))
    return std::nullopt;
  calls_.emplace(id, std::move(call));
  return RequestHandle(*this, id, kept.outputs, kept.cancelled);
}

bool EngineThread::post(std::function<void(Engine&)> job) {
  return messages_.try_push(std::move(job));
}

void EngineThread::shut_down(Shutdown how) {
  {
    std::lock_guard lock(mutex_);
    is_closed_ = true;
    if (how == Shutdown::cancel)
      for (const auto& [id, call] : calls_) call->cancelled = true;
  }
  messages_.close();
  if (thread_.joinable()) thread_.join();
}

void EngineThread::loop() {
  try {
    for (;;) {
      if (engine_.idle()) {
        std::optional<Message> message = messages_.pop();
        if (!message) return;
        (*message)(engine_);
      }
      run_messages();
      for (RequestOutput& output : engine_.step()) deliver(std::move(output));
    }
  } catch (const Error& error) {
    fail_all(error.kind(), error.message());
  } catch (const std::exception& error) {
    fail_all("engine.stopped", error.what());
  }
}

void EngineThread::run_messages() {
  while (std::optional<Message> message = messages_.try_pop()) (*message)(engine_);
}

void EngineThread::take(Request request) {
  RequestOutput refused;
  refused.id = request.id;
  refused.prompt_tokens = static_cast<int32_t>(request.prompt.size());
  const int32_t n = request.n;
  try {
    engine_.submit(std::move(request));
    return;
  } catch (const Error& error) {
    refused.finish_reason = FinishReason::error;
    refused.error_kind = error.kind();
    refused.error_message = error.message();
  }
  for (refused.choice = 0; refused.choice < n; refused.choice++) {
    refused.request_finished = refused.choice == n - 1;
    deliver(refused);
  }
}

void EngineThread::deliver(RequestOutput output) {
  std::lock_guard lock(mutex_);
  const auto place = calls_.find(output.id);
  if (place == calls_.end()) return;
  Call& call = *place->second;
  call.is_finished = output.request_finished;
  if (call.is_finished && call.is_abandoned)
    calls_.erase(place);
  else
    call.outputs.push(std::move(output));
}

// The loop cannot go on: nobody may be left waiting.
void EngineThread::fail_all(std::string_view kind, std::string_view message) {
  std::vector<RequestId> open;
  {
    std::lock_guard lock(mutex_);
    is_closed_ = true;
    for (const auto& [id, call] : calls_)
      if (!call->is_finished) open.push_back(id);
  }
  messages_.close();
  for (const RequestId id : open) {
    RequestOutput output;
    output.id = id;
    output.finish_reason = FinishReason::error;
    output.error_kind = kind;
    output.error_message = message;
    output.request_finished = true;
    deliver(std::move(output));
  }
}

void EngineThread::abandon(RequestId id) {
  std::lock_guard lock(mutex_);
  const auto place = calls_.find(id);
  if (place->second->is_finished) {
    calls_.erase(place);
    return;
  }
  place->second->is_abandoned = true;
  place->second->cancelled = true;
}

}  // namespace pagoda
