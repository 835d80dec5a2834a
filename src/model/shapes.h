// Built-in shapes: the configs of well-known models, by name, for planning and for benchmarks with
// random weights; no file is needed. Figures are those of the models' published configs.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/config.h"

namespace pagoda {

std::optional<ModelConfig> shape_named(std::string_view name);
std::vector<std::string> shape_names();

}  // namespace pagoda
