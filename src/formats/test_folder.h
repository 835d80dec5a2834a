// For tests: a temporary folder that goes away with its object, and the kind of what a call throws.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "base/error.h"

namespace pagoda {

class TestFolder {
 public:
  TestFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "pagoda-test-XXXXXX").string();
    PG_CHECK(mkdtemp(name.data()) != nullptr, "{}", name);
    path_ = std::filesystem::canonical(name);
  }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;
  ~TestFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path write(std::string_view name, std::string_view bytes) const {
    std::ofstream(path_ / name, std::ios::binary) << bytes;
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

// The kind of the Error that `call` throws; empty: none.
template <typename Call>
std::string kind_of(Call call) {
  try {
    call();
  } catch (const Error& e) {
    return e.kind();
  }
  return "";
}

}  // namespace pagoda
