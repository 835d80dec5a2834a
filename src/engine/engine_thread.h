// EngineThread: an Engine on a thread of its own, for callers on any thread.
//
// submit() checks a request on the caller's thread and hands it over through one bounded queue;
// control messages take the same way and are answered between steps. Outputs come back through the
// RequestHandle's OutputStream. Dropping a handle cancels its request. While it lives the thread is
// the only one to touch the engine, but for its options, limits and stats. It must outlive its
// handles.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>

#include "base/queue.h"
#include "engine/engine.h"
#include "engine/output_stream.h"

namespace pagoda {

class EngineThread;

class RequestHandle {
 public:
  RequestHandle(RequestHandle&& other) noexcept { swap(other); }
  RequestHandle& operator=(RequestHandle&& other) noexcept {
    RequestHandle(std::move(other)).swap(*this);
    return *this;
  }
  ~RequestHandle();

  RequestId id() const { return id_; }
  OutputStream& outputs() const { return *outputs_; }
  void cancel();

 private:
  friend class EngineThread;
  RequestHandle(EngineThread& engine, RequestId id, OutputStream& outputs, std::atomic<bool>& flag)
      : engine_(&engine), id_(id), outputs_(&outputs), cancelled_(&flag) {}
  void swap(RequestHandle& other) noexcept;

  EngineThread* engine_ = nullptr;
  RequestId id_ = 0;
  OutputStream* outputs_ = nullptr;
  std::atomic<bool>* cancelled_ = nullptr;
};

enum class Shutdown : uint8_t {
  drain,  // live requests go on to their end
  cancel
};

class EngineThread {
 public:
  explicit EngineThread(Engine& engine);
  ~EngineThread();  // shut_down(Shutdown::cancel)
  EngineThread(const EngineThread&) = delete;
  EngineThread& operator=(const EngineThread&) = delete;

  // The id in `request` is replaced. Throws Error as validate() does; nullopt when there are as
  // many requests as the engine can run and let wait, or after shut_down().
  [[nodiscard]] std::optional<RequestHandle> submit(Request request);
  // Runs `job` on the engine's thread, between steps; false when the queue is full or closed.
  [[nodiscard]] bool post(std::function<void(Engine&)> job);
  // No request is taken any more; returns when the thread has ended.
  void shut_down(Shutdown how);

  const EngineStats& stats() const { return engine_.stats(); }

 private:
  friend class RequestHandle;
  // What a handle and the engine share of a request.
  struct Call {
    std::atomic<bool> cancelled{false};
    OutputStream outputs;
    bool is_finished = false;   // the engine has let go of it
    bool is_abandoned = false;  // the handle has
  };
  using Message = std::function<void(Engine&)>;

  void loop();
  void run_messages();
  void take(Request request);
  void deliver(RequestOutput output);
  void fail_all(std::string_view kind, std::string_view message);
  void abandon(RequestId id);

  Engine& engine_;
  const size_t max_calls_;
  BoundedQueue<Message> messages_;
  std::mutex mutex_;  // of what follows
  std::unordered_map<RequestId, std::unique_ptr<Call>> calls_;
  RequestId next_id_ = 1;
  bool is_closed_ = false;
  std::thread thread_;
};

}  // namespace pagoda
