// A file mapped read-only (MAP_PRIVATE). Owns the mapping; bytes stay valid while it lives. Its
// size is the file's size when it was opened; a file that shrinks afterwards faults, which the
// CLI's SIGBUS handler turns into a clean message (rule R6).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

namespace pagoda {

class MappedFile {
 public:
  // Throws Error: "model.not_found", "model.not_a_file", "model.unreadable", "model.empty".
  explicit MappedFile(const std::filesystem::path& path);
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, static_cast<size_t>(size_)}; }
  const std::filesystem::path& path() const { return path_; }
  // Lets the system drop the resident pages inside [offset, offset + count); reading them again
  // works, from disk.
  void drop_pages(int64_t offset, int64_t count) const;

 private:
  std::filesystem::path path_;
  const std::byte* data_ = nullptr;
  int64_t size_ = 0;
};

}  // namespace pagoda
