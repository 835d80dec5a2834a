#include "cli/errors.h"

#include <unistd.h>

#include <atomic>
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

std::atomic<pid_t> last_error_of{0};  // the thread

}  // namespace

void claim_last_error() {
  const pid_t me = gettid();
  for (pid_t owner = 0; !last_error_of.compare_exchange_strong(owner, me) && owner != me; owner = 0)
    pause();
}

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
  claim_last_error();
  std::fprintf(stderr, "error[%s]: %s\n", error.kind().c_str(), error.message().c_str());
  if (!is_json) return;
  const nlohmann::json document = {
      {"error", {{"kind", error.kind()}, {"message", error.message()}}}};
  std::puts(document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
}

}  // namespace pagoda::cli
