#include "formats/model_folder.h"

#include <algorithm>
#include <string>

#include "base/error.h"
#include "formats/printable.h"

namespace pagoda {
namespace {

namespace fs = std::filesystem;

// .../models--OWNER--NAME/snapshots/REVISION: the links in it lead to ../../blobs.
bool is_cache_snapshot(const fs::path& folder) {
  const fs::path parent = folder.parent_path();
  return parent.filename() == "snapshots" &&
         parent.parent_path().filename().string().starts_with("models--");
}

bool is_inside(const fs::path& file, const fs::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), file.begin(), file.end()).first ==
         folder.end();
}

std::string shown(const fs::path& path) {
  return printable(path.string(), 1000);
}

}  // namespace

bool is_plain_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\\\0", 3)) == std::string_view::npos;
}

ModelFolder::ModelFolder(const fs::path& folder) : path_(folder.empty() ? "." : folder) {
  std::error_code error;
  border_ = fs::canonical(path_, error);
  if (error)
    throw Error(
        error == std::errc::no_such_file_or_directory ? "model.not_found" : "model.unreadable",
        "{}: {}",
        shown(path_),
        error.message());
  if (is_cache_snapshot(border_)) border_ = border_.parent_path().parent_path();
}

bool ModelFolder::has(std::string_view name) const {
  std::error_code error;
  return is_plain_name(name) &&
         fs::symlink_status(path_ / name, error).type() != fs::file_type::not_found;
}

std::unique_ptr<MappedFile> ModelFolder::open(std::string_view name,
                                              std::string_view escape_kind) const {
  if (!is_plain_name(name))
    throw Error(std::string(escape_kind),
                "{}: expected the plain name of a file in this folder, found {}",
                shown(path_),
                printable(name));
  const fs::path file = path_ / name;
  std::error_code error;
  const fs::path real = fs::canonical(file, error);
  if (error)
    throw Error(
        error == std::errc::no_such_file_or_directory ? "model.not_found" : "model.unreadable",
        "{}: {}",
        shown(file),
        error.message());
  if (!is_inside(real, border_))
    throw Error(std::string(escape_kind),
                "{}: expected a file inside {}, found a link to {}",
                shown(file),
                shown(border_),
                shown(real));
  return std::make_unique<MappedFile>(real);
}

}  // namespace pagoda
