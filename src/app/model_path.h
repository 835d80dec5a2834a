// What MODEL on a command line means: a file, a folder, a name in the model folder, or a built-in
// shape.
#pragma once

#include <filesystem>
#include <string>

namespace pagoda {

// $PAGODA_MODELS, else $XDG_CACHE_HOME/pagoda/models, else ~/.cache/pagoda/models.
std::filesystem::path models_folder();

// The path of MODEL. Throws Error{"model.not_found"} saying where was looked and which names are
// there.
std::filesystem::path resolve_model(const std::string& model);

}  // namespace pagoda
