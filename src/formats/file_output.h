// A file that appears whole or not at all: bytes go to a temporary file beside the target, commit()
// syncs and renames it; without commit() the temporary file is removed. A model that some process
// has mapped is never written over (rule R6). Errors: "file.write_failed".
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace pagoda {

class FileOutput {
 public:
  explicit FileOutput(const std::filesystem::path& path);
  FileOutput(const FileOutput&) = delete;
  FileOutput& operator=(const FileOutput&) = delete;
  ~FileOutput();

  void write(std::span<const std::byte> bytes);
  void commit();

 private:
  [[noreturn]] void fail(const char* what) const;

  std::filesystem::path path_, temporary_;
  int fd_ = -1;
};

}  // namespace pagoda
