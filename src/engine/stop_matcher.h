// StopMatcher: passes on a generation's text up to the first stop string, and holds back what may
// yet become one.
//
// A match may start in one piece of text and end in a later one. Stop strings and pieces are whole
// characters, so cuts fall between characters. Of several matches the one that starts first wins,
// then the one listed first.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace pagoda {

class StopMatcher {
 public:
  // Adds `piece`; what is safe goes to the end of `out`. Returns the stop string that was found, or
  // an empty view; after a match nothing more may be added.
  std::string_view append(std::string_view piece,
                          std::span<const std::string> stops,
                          std::string& out);
  // The end without a match: what was held back goes out.
  void flush(std::string& out);

 private:
  std::string held_;
};

}  // namespace pagoda
