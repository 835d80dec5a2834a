// A folder that holds a model, from outside and not trusted (rule R7): files are named by plain
// names and opened only when their real place, after all symbolic links, is inside the folder (for
// a snapshot of the Hugging Face cache: inside that model's cache folder, where its links lead).
#pragma once

#include <filesystem>
#include <memory>
#include <string_view>

#include "base/mapped_file.h"

namespace pagoda {

class ModelFolder {
 public:
  // An empty path is the current folder.
  explicit ModelFolder(const std::filesystem::path& folder);

  const std::filesystem::path& path() const { return path_; }
  // Something of that name is there (also a link that leads nowhere or outside).
  bool has(std::string_view name) const;
  // Throws Error{escape_kind} for a name that is no plain name or a link that leaves the folder,
  // before anything is opened; else as MappedFile does.
  std::unique_ptr<MappedFile> open(std::string_view name, std::string_view escape_kind) const;

 private:
  std::filesystem::path path_;    // as given
  std::filesystem::path border_;  // real place
};

// No separators, not empty, not "." or "..", no NUL.
bool is_plain_name(std::string_view name);

}  // namespace pagoda
