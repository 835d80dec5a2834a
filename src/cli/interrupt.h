// Ctrl-C and SIGTERM. They end the process with status 130, the terminal as it was found. While an
// InterruptScope lives, that is while an answer is made, the first of them only sets its flag, and
// what was said so far is kept; the second ends the process. main() owns the handlers.
//
//   InterruptScope scope;
//   generate(…, {.cancelled = &scope.flag()});
#pragma once

#include <atomic>

namespace pagoda::cli {

// Remembers the settings of the terminal, if there is one.
void install_interrupt_handlers();

// Whether a SIGTERM came: nothing new should begin.
bool is_terminated();

class InterruptScope {
 public:
  InterruptScope();
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

  const std::atomic<bool>& flag() const;
};

}  // namespace pagoda::cli
