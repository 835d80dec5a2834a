// Loading a model for a command, with a progress bar where stderr is a terminal; and writing what
// it says.
#pragma once

#include <memory>
#include <string>

#include "engine/deployment.h"

namespace pagoda::cli {

// MODEL (a built-in shape too, for --load-format dummy), not loaded yet.
ModelSource find_model(const std::string& model, const EngineSettings& settings);
std::unique_ptr<Deployment> load(ModelSource source, const EngineSettings& settings);
// Both; `load_s` (may be null) gets the seconds that they took.
std::unique_ptr<Deployment> load(const std::string& model,
                                 const EngineSettings& settings,
                                 double* load_s);

// Writes and flushes; false when nobody reads any more.
bool write_out(std::string_view text);

int64_t peak_rss_bytes();

}  // namespace pagoda::cli
