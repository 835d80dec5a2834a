// A read position in the bytes of a GGUF file. Every read is checked against what remains; a failed
// one throws an Error that names the file, the position and the item being read.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "base/error.h"
#include "formats/printable.h"

namespace pagoda {

static_assert(std::endian::native == std::endian::little, "GGUF and safetensors are little-endian");

class GgufCursor {
 public:
  GgufCursor(std::span<const std::byte> bytes, std::string_view path)
      : bytes_(bytes), path_(path) {}

  // What is being read now, for messages: "metadata", "llama.block_count". Views, kept as they are.
  void enter(std::string_view section, std::string_view item) {
    section_ = section;
    item_ = item;
  }
  std::string where() const {
    if (item_.empty()) return fmt::format("{}: {}", path_, section_);
    return fmt::format("{}: {} {}", path_, section_, printable(item_));
  }

  int64_t position() const { return position_; }
  uint64_t remaining() const { return bytes_.size() - position_; }

  template <typename T>
  T take() {
    T value;
    std::memcpy(&value, take_bytes(sizeof(T)), sizeof(T));
    return value;
  }

  // u64 length, then that many bytes.
  std::string_view take_string() {
    const auto length = take<uint64_t>();
    require(length, 1);
    return {reinterpret_cast<const char*>(take_bytes(length)), length};
  }

  const std::byte* take_bytes(uint64_t count) {
    if (count > remaining()) refuse("gguf.truncated", count);
    const std::byte* data = bytes_.data() + position_;
    position_ += static_cast<int64_t>(count);
    return data;
  }

  // `count` items of at least `item_bytes` each still fit: checked before anything is reserved.
  // More than the whole file could hold is a lie, less is a file that was cut.
  void require(uint64_t count, uint64_t item_bytes) const {
    if (count > bytes_.size() / item_bytes) refuse("gguf.count_too_large", count);
    if (count > remaining() / item_bytes) refuse("gguf.truncated", count * item_bytes);
  }

  [[noreturn]] void refuse(std::string_view kind, uint64_t wanted) const {
    throw Error(std::string(kind),
                "{}: at byte {}: expected {} {}, found {} bytes to the end of the file",
                where(),
                position_,
                wanted,
                kind == "gguf.truncated" ? "bytes" : "items or bytes",
                remaining());
  }

 private:
  std::span<const std::byte> bytes_;
  std::string_view path_, section_, item_;
  int64_t position_ = 0;
};

}  // namespace pagoda
