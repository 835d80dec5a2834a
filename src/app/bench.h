// How fast a deployment is, through the engine as every request goes: prefill and decode at depths
// and batch sizes, each beside the least time that this machine allows (app/roofline).
//
// Prompts are random tokens, never special ones. Prefill: one request whose first `depth` tokens
// are found in the prefix cache and `prompt` are not, timed from submission to the first token.
// Decode: `batch` requests of depth tokens, counted from when all have their first token; none ends
// before the last counted step.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "backend/cpu/machine_limits.h"
#include "engine/deployment.h"

namespace pagoda {

struct BenchOptions {
  std::vector<int32_t> prompts = {512};    // lengths; 0: no prefill
  std::vector<int32_t> generated = {128};  // tokens counted of each sequence; 0: no decode
  std::vector<int32_t> depths = {0};
  std::vector<int32_t> batches = {1};
  int32_t repetitions = 5;
  uint64_t seed = 0;  // of the random tokens
};

enum class BenchTest : uint8_t { prefill, decode };

struct BenchRow {
  BenchTest test = BenchTest::prefill;
  int32_t prompt = 0;  // tokens computed before the first one
  int32_t generated = 0;
  int32_t depth = 0;
  int32_t batch = 1;
  double tokens_per_s = 0;  // the median
  double min = 0, max = 0;
  double cpu_s_per_token = 0;  // of all threads, the median: what a busy machine disturbs less
  double limit_tokens_per_s = 0;
  bool is_memory_bound = false;
};

struct BenchMachine {
  std::string backend = {};  // "cpu (v4-bf16, 2 threads)"
  double load = 0;           // before the measurements
  cpu::MachineLimits limits = {};
};

// Settings under which every test fits. Throws Error{"usage.bench"} naming the flag where one does
// not fit into the model's context or --max-model-len, or contradicts what bench measures.
EngineSettings bench_settings(const BenchOptions& options,
                              EngineSettings given,
                              const ModelConfig& config);

// Throws Error as Engine::submit does, and the error that ended a request.
std::vector<BenchRow> bench(Deployment& deployment,
                            const BenchOptions& options,
                            const cpu::MachineLimits& limits,
                            const std::function<void(const BenchRow&)>& on_row);

std::string bench_heading(const std::string& model, const BenchMachine& machine);
std::string bench_line(const BenchRow& row);
std::string bench_json(const std::string& model,
                       const BenchMachine& machine,
                       const std::vector<BenchRow>& rows);

}  // namespace pagoda
