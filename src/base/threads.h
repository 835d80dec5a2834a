// ThreadPool: a fixed set of threads that run one job together, for regions of microseconds.
//
// run(job) calls job(thread) for thread 0 … size-1 and returns when all are done. The caller does
// the share of thread 0, then those that no worker has begun: a worker that sleeps, or that a busy
// machine keeps from running, is not waited for. So a job must not wait for another share. One
// caller at a time owns the pool. Workers spin for a short while, then sleep on a futex, so that a
// busy machine is not made busier. Threads split outputs, never a reduction (docs/architecture.md
// §4).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

namespace pagoda {

// Physical cores within this process's affinity mask, and no more than its cgroup (v1 or v2) CPU
// quota allows; at least 1.
int default_num_threads();

class ThreadPool {
 public:
  explicit ThreadPool(int num_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return static_cast<int>(workers_.size()) + 1; }

  template <typename Job>  // void(int thread)
  void run(Job&& job) {
    run_erased([](void* context,
                  int thread) { (*static_cast<std::remove_reference_t<Job>*>(context))(thread); },
               &job);
  }

 private:
  using Call = void (*)(void* context, int thread);
  void run_erased(Call call, void* context);
  void work(int thread);
  // Whether the share of `thread` in region `generation` is the calling thread's to do.
  bool claim(int thread, uint32_t generation);

  // The last region in which a worker's share was begun, by the worker or by the caller.
  struct alignas(64) Claim {
    std::atomic<uint32_t> generation{0};
  };

  Call call_ = nullptr;  // written by run() before generation_ is raised
  void* context_ = nullptr;
  alignas(64) std::atomic<uint32_t> generation_{0};
  alignas(64) std::atomic<int32_t> unfinished_{0};
  std::atomic<bool> stopping_{false};
  std::unique_ptr<Claim[]> claims_;  // [size - 1]
  std::vector<std::thread> workers_;
};

}  // namespace pagoda
