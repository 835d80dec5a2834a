#include "engine/stop_matcher.h"

#include <algorithm>

#include "kv/planted_bug.h"

namespace pagoda {

namespace {

// Length of the longest end of `text` that is a proper start of `stop`.
size_t overlap(std::string_view text, std::string_view stop) {
  for (size_t n = std::min(text.size(), stop.size() - 1); n > 0; n--)
    if (text.ends_with(stop.substr(0, n))) return n;
  return 0;
}

}  // namespace

std::string_view StopMatcher::append(std::string_view piece,
                                     std::span<const std::string> stops,
                                     std::string& out) {
  held_ += piece;
  size_t first = std::string::npos, num_held = 0;
  std::string_view found;
  for (const std::string& stop : stops) {
    const size_t place = held_.find(stop);
    if (place < first) {
      first = place;
      found = stop;
    }
    num_held = std::max(num_held, overlap(held_, stop));
  }
  if (planted(PlantedBug::stop_text_leaks)) num_held = 0;
  const size_t num_out = found.empty() ? held_.size() - num_held : first;
  out.append(held_, 0, num_out);
  held_.erase(0, found.empty() ? num_out : held_.size());
  return found;
}

void StopMatcher::flush(std::string& out) {
  out += held_;
  held_.clear();
}

}  // namespace pagoda
