#include "formats/file_output.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace pagoda {

FileOutput::FileOutput(const std::filesystem::path& path)
    : path_(path), temporary_(path.string() + fmt::format(".{}.tmp", getpid())) {
  fd_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (fd_ < 0) fail("create");
}

FileOutput::~FileOutput() {
  if (fd_ < 0) return;
  close(fd_);
  unlink(temporary_.c_str());
}

void FileOutput::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) fail("write to");
    bytes = bytes.subspan(written);
  }
}

void FileOutput::commit() {
  if (fsync(fd_) != 0) fail("sync");
  if (rename(temporary_.c_str(), path_.c_str()) != 0) fail("rename");
  close(fd_);
  fd_ = -1;
}

void FileOutput::fail(const char* what) const {
  throw Error("file.write_failed",
              "{}: cannot {} {}: {}",
              path_.string(),
              what,
              temporary_.string(),
              std::strerror(errno));
}

}  // namespace pagoda
