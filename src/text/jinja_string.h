// Str: a string that knows, byte for byte, who wrote it: the template (markup) or the request
// (plain). Concatenation, slices and everything built from them carry the origins along; equality
// and hashing look at the bytes only.
//
// Runs are kept sorted, none is empty and neighbours differ. The bytes are valid UTF-8; positions
// are byte offsets at character borders.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "text/text_part.h"

namespace pagoda::jinja {

class Str {
 public:
  struct Run {
    size_t end;  // offset behind the run's last byte
    TextOrigin origin;
  };

  Str() = default;
  Str(std::string bytes, TextOrigin origin);

  std::string_view bytes() const { return bytes_; }
  size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  const std::vector<Run>& runs() const { return runs_; }

  void append(std::string_view bytes, TextOrigin origin);
  void append(const Str& other) { append(other, 0, other.size()); }
  // The bytes [begin, end) of `other`.
  void append(const Str& other, size_t begin, size_t end);
  Str slice(size_t begin, size_t end) const;
  // Plain when any byte is plain: the origin of text computed from this string as a whole.
  TextOrigin origin() const;
  std::vector<TextPart> parts() const;

 private:
  std::string bytes_;
  std::vector<Run> runs_;
};

}  // namespace pagoda::jinja
