#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "app/bench.h"

namespace pagoda {
namespace {

using Json = nlohmann::ordered_json;

std::string_view name(BenchTest test) {
  return test == BenchTest::prefill ? "prefill" : "decode";
}

std::string_view bound(const BenchRow& row) {
  return row.is_memory_bound ? "memory" : "compute";
}

}  // namespace

std::string bench_heading(const std::string& model, const BenchMachine& machine) {
  return fmt::format(
      "{} on {}: reads {:.1f} GB/s, {:.0f} Gop/s int8, {:.0f} GFLOP/s bf16, {:.0f} f32\n"
      "{:<8} {:>7} {:>7} {:>6} {:>12} {:>24} {:>12} {:>9}  bound\n",
      model,
      machine.backend,
      machine.limits.read_bytes_per_s / 1e9,
      machine.limits.int8_ops_per_s / 1e9,
      machine.limits.bf16_ops_per_s / 1e9,
      machine.limits.f32_ops_per_s / 1e9,
      "test",
      "tokens",
      "depth",
      "batch",
      "tokens/s",
      "min to max",
      "limit",
      "of limit");
}

std::string bench_line(const BenchRow& row) {
  return fmt::format("{:<8} {:>7} {:>7} {:>6} {:>12.1f} {:>24} {:>12.1f} {:>7.0f} %  {}\n",
                     name(row.test),
                     row.test == BenchTest::prefill ? row.prompt : row.generated,
                     row.depth,
                     row.batch,
                     row.tokens_per_s,
                     fmt::format("{:.1f} to {:.1f}", row.min, row.max),
                     row.limit_tokens_per_s,
                     100 * row.tokens_per_s / row.limit_tokens_per_s,
                     bound(row));
}

std::string bench_json(const std::string& model,
                       const BenchMachine& machine,
                       const std::vector<BenchRow>& rows) {
  Json list = Json::array();
  for (const BenchRow& row : rows)
    list.push_back({{"test", name(row.test)},
                    {"prompt", row.prompt},
                    {"generated", row.generated},
                    {"depth", row.depth},
                    {"batch", row.batch},
                    {"tokens_per_s", row.tokens_per_s},
                    {"min", row.min},
                    {"max", row.max},
                    {"cpu_s_per_token", row.cpu_s_per_token},
                    {"limit_tokens_per_s", row.limit_tokens_per_s},
                    {"fraction_of_limit", row.tokens_per_s / row.limit_tokens_per_s},
                    {"bound", bound(row)}});
  const Json document = {{"model", model},
                         {"rows", list},
                         {"machine",
                          {{"backend", machine.backend},
                           {"load", machine.load},
                           {"is_busy", machine.load > cpu::kIdleLoad},
                           {"read_bytes_per_s", machine.limits.read_bytes_per_s},
                           {"int8_ops_per_s", machine.limits.int8_ops_per_s},
                           {"bf16_ops_per_s", machine.limits.bf16_ops_per_s},
                           {"f32_ops_per_s", machine.limits.f32_ops_per_s}}}};
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace pagoda
