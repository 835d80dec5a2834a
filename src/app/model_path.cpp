#include "app/model_path.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace pagoda {
namespace {

namespace fs = std::filesystem;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// The names that resolve in the model folder, for the message.
std::string names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored))
    if (entry.path().extension() == ".gguf" || entry.is_directory(ignored))
      names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  std::string joined;
  for (const std::string& name : names) joined += (joined.empty() ? "" : ", ") + name;
  return joined.empty() ? "none" : joined;
}

}  // namespace

fs::path models_folder() {
  if (const std::string folder = environment("PAGODA_MODELS"); !folder.empty()) return folder;
  const std::string cache = environment("XDG_CACHE_HOME");
  return (cache.empty() ? fs::path(environment("HOME")) / ".cache" : fs::path(cache)) / "pagoda" /
         "models";
}

fs::path resolve_model(const std::string& model) {
  std::error_code ignored;
  if (model.empty()) throw Error("model.not_found", "the name of the model is empty");
  if (fs::exists(model, ignored)) return model;
  const fs::path folder = models_folder();
  if (model.find('/') == std::string::npos) {
    for (const fs::path& candidate : {folder / (model + ".gguf"), folder / model})
      if (fs::exists(candidate, ignored)) return candidate;
  }
  throw Error("model.not_found",
              "{}: no such file or folder, and no model of that name in {} (there: {}); "
              "scripts/fetch-model gets "
              "the small public ones",
              model,
              folder.string(),
              names_in(folder));
}

}  // namespace pagoda
