#include "cli/input.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace pagoda::cli {
namespace {

constexpr size_t kMaxBytes = size_t{256} << 20;
constexpr size_t kChunk = size_t{64} << 10;

[[noreturn]] void refuse(const std::string& name, int why) {
  throw Error("usage.file", "{}: cannot be read: {}", name, std::strerror(why));
}

class File {
 public:
  explicit File(const std::string& path)
      : is_stdin_(path == "-"), fd_(is_stdin_ ? STDIN_FILENO : open(path.c_str(), O_RDONLY)) {
    if (fd_ < 0) refuse(path, errno);
  }
  ~File() {
    if (!is_stdin_) close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int fd() const { return fd_; }

 private:
  bool is_stdin_;
  int fd_;
};

}  // namespace

std::string read_input(const std::string& path) {
  const std::string name = path == "-" ? "the standard input" : path;
  const File file(path);
  std::string text;
  while (true) {
    const size_t size = text.size();
    text.resize(size + kChunk);
    const ssize_t count = read(file.fd(), text.data() + size, kChunk);
    if (count < 0 && errno != EINTR) refuse(name, errno);
    text.resize(size + std::max<ssize_t>(count, 0));
    if (count == 0) return text;
    if (text.size() > kMaxBytes)
      throw Error("usage.file", "{}: more than {} bytes of text", name, kMaxBytes);
  }
}

}  // namespace pagoda::cli
