#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/checked.h"
#include "base/error.h"

namespace pagoda {

MappedFile::MappedFile(const std::filesystem::path& path) : path_(path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    const int why = errno;
    throw Error(why == ENOENT || why == ENOTDIR ? "model.not_found" : "model.unreadable",
                "{}: {}",
                path.string(),
                std::strerror(why));
  }
  struct stat st {};
  const int failed = fstat(fd, &st);
  if (failed != 0 || !S_ISREG(st.st_mode) || st.st_size == 0) {
    close(fd);
    if (failed == 0 && S_ISREG(st.st_mode))
      throw Error("model.empty", "{}: the file is empty", path.string());
    throw Error("model.not_a_file", "{}: expected a regular file", path.string());
  }
  size_ = st.st_size;
  void* data = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd, 0);
  const int why = errno;
  close(fd);
  if (data == MAP_FAILED)
    throw Error(why == ENOMEM ? "memory.alloc_failed" : "model.unreadable",
                "{}: cannot map {} bytes: {}",
                path.string(),
                size_,
                std::strerror(why));
  data_ = static_cast<const std::byte*>(data);
}

MappedFile::~MappedFile() {
  munmap(const_cast<std::byte*>(data_), size_);
}

void MappedFile::drop_pages(int64_t offset, int64_t count) const {
  const int64_t page = sysconf(_SC_PAGESIZE);
  const int64_t begin = round_up(offset, page), end = (offset + count) / page * page;
  if (end > begin) madvise(const_cast<std::byte*>(data_) + begin, end - begin, MADV_DONTNEED);
}

}  // namespace pagoda
