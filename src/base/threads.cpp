#include "base/threads.h"

#include <sched.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <set>
#include <string>
#include <system_error>
#include <utility>

#include "base/error.h"

namespace pagoda {
namespace {

constexpr int kSpins = 4000;  // pauses before sleeping: some 50 µs, a few times a region's length

void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Waits until `value` differs from `old`: spins first, then sleeps.
template <typename T>
void wait_for_change(const std::atomic<T>& value, T old) {
  for (int i = 0; i < kSpins; i++) {
    if (value.load(std::memory_order_acquire) != old) return;
    pause_cpu();
  }
  value.wait(old, std::memory_order_acquire);
}

std::string first_line(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

int physical_cores_within_affinity() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (sched_getaffinity(0, sizeof mask, &mask) != 0)
    return std::max(1u, std::thread::hardware_concurrency());
  std::set<std::pair<std::string, std::string>> cores;  // (package, core)
  for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
    if (!CPU_ISSET(cpu, &mask)) continue;
    const std::string topology = "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/";
    std::string core = first_line(topology + "core_id");
    if (core.empty()) core = "cpu" + std::to_string(cpu);
    cores.emplace(first_line(topology + "physical_package_id"), core);
  }
  return std::max<int>(1, cores.size());
}

// CPUs allowed by the quota of this process's cgroup, rounded down; a large number where there is
// none.
int cgroup_quota_cpus() {
  long long quota = -1, period = 0;
  const std::string v2 = first_line("/sys/fs/cgroup/cpu.max");
  if (std::sscanf(v2.c_str(), "%lld %lld", &quota, &period) != 2) {
    const std::string q = first_line("/sys/fs/cgroup/cpu/cpu.cfs_quota_us");
    const std::string p = first_line("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
    if (std::sscanf(q.c_str(), "%lld", &quota) != 1 || std::sscanf(p.c_str(), "%lld", &period) != 1)
      return 1 << 20;
  }
  if (quota <= 0 || period <= 0) return 1 << 20;
  return static_cast<int>(std::max(1LL, quota / period));
}

}  // namespace

int default_num_threads() {
  return std::min(physical_cores_within_affinity(), cgroup_quota_cpus());
}

ThreadPool::ThreadPool(int num_threads)
    : claims_(std::make_unique<Claim[]>(static_cast<size_t>(std::max(num_threads - 1, 0)))) {
  try {
    for (int thread = 1; thread < num_threads; thread++)
      workers_.emplace_back([this, thread] { work(thread); });
  } catch (const std::system_error& error) {
    stopping_.store(true, std::memory_order_relaxed);  // there is no destructor yet
    generation_.fetch_add(1, std::memory_order_release);
    generation_.notify_all();
    for (std::thread& worker : workers_) worker.join();
    throw Error("cpu.threads",
                "{} threads cannot be started ({}); use fewer, with --threads",
                num_threads,
                error.what());
  }
}

ThreadPool::~ThreadPool() {
  stopping_.store(true, std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

// Every share of a region is begun before the region ends, so the claim before was of the region
// before. A late worker finds its share begun, and a region whose share it holds cannot end: call_
// and context_ are those of `generation`.
bool ThreadPool::claim(int thread, uint32_t generation) {
  uint32_t before = generation - 1;
  return claims_[static_cast<size_t>(thread - 1)].generation.compare_exchange_strong(
      before, generation, std::memory_order_acq_rel);
}

void ThreadPool::run_erased(Call call, void* context) {
  if (workers_.empty()) return call(context, 0);
  call_ = call;
  context_ = context;
  unfinished_.store(static_cast<int32_t>(workers_.size()), std::memory_order_relaxed);
  const uint32_t generation = generation_.fetch_add(1, std::memory_order_release) + 1;
  generation_.notify_all();
  call(context, 0);
  int32_t num_taken = 0;
  for (int thread = 1; thread < size(); thread++) {
    if (!claim(thread, generation)) continue;
    call(context, thread);
    num_taken++;
  }
  if (num_taken > 0) unfinished_.fetch_sub(num_taken, std::memory_order_acq_rel);
  for (int32_t left = unfinished_.load(std::memory_order_acquire); left != 0;
       left = unfinished_.load(std::memory_order_acquire))
    wait_for_change(unfinished_, left);
}

void ThreadPool::work(int thread) {
  uint32_t seen = 0;
  while (true) {
    wait_for_change(generation_, seen);
    seen = generation_.load(std::memory_order_acquire);
    if (stopping_.load(std::memory_order_relaxed)) return;
    if (!claim(thread, seen)) continue;
    call_(context_, thread);
    if (unfinished_.fetch_sub(1, std::memory_order_acq_rel) == 1) unfinished_.notify_one();
  }
}

}  // namespace pagoda
