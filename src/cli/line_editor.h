// LineEditor: one line at a time from a terminal with editing and history (libedit), or plainly
// from a pipe.
#pragma once

#include <memory>
#include <optional>
#include <string>

namespace pagoda::cli {

class LineEditor {
 public:
  explicit LineEditor(std::string prompt);
  ~LineEditor();

  // Without its newline; nullopt at the end of input. Ctrl-C while editing gives an empty line.
  std::optional<std::string> read();

 private:
  struct Terminal;
  std::unique_ptr<Terminal> terminal_;  // null: not a terminal
};

}  // namespace pagoda::cli
