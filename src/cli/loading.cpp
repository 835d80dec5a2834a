#include "cli/loading.h"

#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>

#include "app/model_path.h"
#include "app/plan_report.h"
#include "model/shapes.h"

namespace pagoda::cli {
namespace {

void show_progress(int64_t done, int64_t total) {
  std::fprintf(stderr, "\rloading %3d %%", int(done * 100 / std::max<int64_t>(total, 1)));
  if (done == total) std::fputs("\r             \r", stderr);
}

}  // namespace

ModelSource find_model(const std::string& model, const EngineSettings& settings) {
  if (settings.load_format == LoadFormat::dummy)
    if (auto shape = shape_named(model)) return model_of_shape(std::move(*shape));
  return open_model(resolve_model(model));
}

std::unique_ptr<Deployment> load(ModelSource source, const EngineSettings& settings) {
  const Deployment::Progress progress =
      isatty(STDERR_FILENO) ? Deployment::Progress(show_progress) : Deployment::Progress();
  return std::make_unique<Deployment>(std::move(source), settings, progress);
}

std::unique_ptr<Deployment> load(const std::string& model,
                                 const EngineSettings& settings,
                                 double* load_s) {
  const auto start = std::chrono::steady_clock::now();
  auto deployment = load(find_model(model, settings), settings);
  if (load_s != nullptr)
    *load_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return deployment;
}

bool write_out(std::string_view text) {
  return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() &&
         std::fflush(stdout) == 0;
}

int64_t peak_rss_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} * 1024;
}

}  // namespace pagoda::cli
