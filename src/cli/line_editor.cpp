#include "cli/line_editor.h"

#include <histedit.h>
#include <unistd.h>

#include <cerrno>
#include <iostream>
#include <utility>

#include "cli/loading.h"

namespace pagoda::cli {
namespace {

constexpr int kHistoryLines = 1000;

}  // namespace

struct LineEditor::Terminal {
  std::string prompt;
  EditLine* edit = nullptr;
  History* history = nullptr;
  HistEvent event{};
};

LineEditor::LineEditor(std::string prompt) {
  if (isatty(STDIN_FILENO) == 0) return;
  terminal_ = std::make_unique<Terminal>();
  Terminal& t = *terminal_;
  t.prompt = std::move(prompt);
  t.edit = el_init("pagoda", stdin, stdout, stderr);
  t.history = history_init();
  history(t.history, &t.event, H_SETSIZE, kHistoryLines);
  el_set(t.edit, EL_CLIENTDATA, &t);
  el_set(
      t.edit, EL_PROMPT, +[](EditLine* edit) {
        void* data = nullptr;
        el_get(edit, EL_CLIENTDATA, &data);
        return static_cast<Terminal*>(data)->prompt.data();
      });
  el_set(t.edit, EL_EDITOR, "emacs");
  el_set(t.edit, EL_HIST, history, t.history);
}

LineEditor::~LineEditor() {
  if (terminal_ == nullptr) return;
  history_end(terminal_->history);
  el_end(terminal_->edit);
}

std::optional<std::string> LineEditor::read() {
  std::string line;
  if (terminal_ == nullptr) {
    if (!std::getline(std::cin, line)) return std::nullopt;
    return line;
  }
  Terminal& t = *terminal_;
  int count = 0;
  const char* text = el_gets(t.edit, &count);
  if (text == nullptr || count <= 0) {
    if (!interrupt_flag()) return std::nullopt;
    el_reset(t.edit);
    clear_interrupt();
    return line;
  }
  line.assign(text, count);
  while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.pop_back();
  if (!line.empty()) history(t.history, &t.event, H_ENTER, line.c_str());
  return line;
}

}  // namespace pagoda::cli
