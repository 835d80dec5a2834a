#include "cli/interrupt.h"

#include <termios.h>
#include <unistd.h>

#include <csignal>

#include "cli/errors.h"

namespace pagoda::cli {
namespace {

// For the handler, which cannot be given an object.
struct State {
  std::atomic<bool> is_deferred{false}, interrupted{false}, terminated{false};
  bool has_terminal = false;
  termios terminal{};
};
State state;

void on_interrupt(int signal) {
  if (signal == SIGTERM) state.terminated = true;
  const bool is_second = state.interrupted.exchange(true);
  if (state.is_deferred && !is_second) return;
  if (state.has_terminal) tcsetattr(STDIN_FILENO, TCSANOW, &state.terminal);
  _exit(kInterrupted);
}

}  // namespace

void install_interrupt_handlers() {
  state.has_terminal = tcgetattr(STDIN_FILENO, &state.terminal) == 0;
  std::signal(SIGINT, on_interrupt);
  std::signal(SIGTERM, on_interrupt);
}

bool is_terminated() {
  return state.terminated;
}

InterruptScope::InterruptScope() {
  state.interrupted = false;
  state.is_deferred = true;
}

InterruptScope::~InterruptScope() {
  state.is_deferred = false;
}

const std::atomic<bool>& InterruptScope::flag() const {
  return state.interrupted;
}

}  // namespace pagoda::cli
