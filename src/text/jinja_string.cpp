#include "text/jinja_string.h"

#include <algorithm>
#include <utility>

namespace pagoda::jinja {

Str::Str(std::string bytes, TextOrigin origin) : bytes_(std::move(bytes)) {
  if (!bytes_.empty()) runs_.push_back({bytes_.size(), origin});
}

void Str::append(std::string_view bytes, TextOrigin origin) {
  if (bytes.empty()) return;
  bytes_.append(bytes);
  if (!runs_.empty() && runs_.back().origin == origin) {
    runs_.back().end = bytes_.size();
  } else {
    runs_.push_back({bytes_.size(), origin});
  }
}

void Str::append(const Str& other, size_t begin, size_t end) {
  auto run =
      std::upper_bound(other.runs_.begin(), other.runs_.end(), begin, [](size_t pos, const Run& r) {
        return pos < r.end;
      });
  while (begin < end) {
    const size_t stop = std::min(end, run->end);
    append(other.bytes().substr(begin, stop - begin), run->origin);
    begin = stop;
    ++run;
  }
}

Str Str::slice(size_t begin, size_t end) const {
  Str result;
  if (begin < end) result.append(*this, begin, end);
  return result;
}

TextOrigin Str::origin() const {
  for (const Run& run : runs_) {
    if (run.origin == TextOrigin::plain) return TextOrigin::plain;
  }
  return TextOrigin::markup;
}

std::vector<TextPart> Str::parts() const {
  std::vector<TextPart> result;
  size_t begin = 0;
  for (const Run& run : runs_) {
    result.push_back({bytes_.substr(begin, run.end - begin), run.origin});
    begin = run.end;
  }
  return result;
}

}  // namespace pagoda::jinja
