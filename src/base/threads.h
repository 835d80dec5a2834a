// ThreadPool: a fixed set of threads that run one job together, for regions of microseconds.
//
// run(job) calls job(thread) for thread 0 … size-1, thread 0 being the caller, and returns when all
// are done. One caller at a time owns the pool. Workers spin for a short while, then sleep on a
// futex, so that a busy machine is not made busier; a region entered while workers were descheduled
// still ends. Threads split outputs, never a reduction (docs/architecture.md §4).
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

  Call call_ = nullptr;  // written by run() before generation_ is raised
  void* context_ = nullptr;
  alignas(64) std::atomic<uint32_t> generation_{0};
  alignas(64) std::atomic<int32_t> unfinished_{0};
  std::atomic<bool> stopping_{false};
  std::vector<std::thread> workers_;
};

}  // namespace pagoda
