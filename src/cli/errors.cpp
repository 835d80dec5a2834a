#include "cli/errors.h"

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string_view>

namespace pagoda::cli {
namespace {

struct Area {
  std::string_view name;
  ExitStatus status;
};
constexpr Area kAreas[] = {
    {"model", kModel},
    {"gguf", kModel},
    {"st", kModel},
    {"tokenizer", kModel},
    {"template", kModel},
    {"memory", kEnvironment},
    {"kv", kEnvironment},
    {"cpu", kEnvironment},
    {"device", kEnvironment},
    {"cuda", kEnvironment},
    {"net", kEnvironment},
    {"usage", kUsage},
    {"request", kUsage},
};

}  // namespace

ExitStatus exit_status(const Error& error) {
  // What a template makes of a request's messages is the caller's affair, as flags are.
  for (const char* kind : {"template.input", "template.raised", "engine.bad_options"})
    if (error.kind() == kind) return kUsage;
  const std::string_view area = std::string_view(error.kind()).substr(0, error.kind().find('.'));
  for (const Area& row : kAreas)
    if (row.name == area) return row.status;
  return kFailed;
}

void print_error(const Error& error, bool is_json) {
  std::fprintf(stderr, "error[%s]: %s\n", error.kind().c_str(), error.message().c_str());
  if (!is_json) return;
  const nlohmann::json document = {
      {"error", {{"kind", error.kind()}, {"message", error.message()}}}};
  std::puts(document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
}

}  // namespace pagoda::cli
