#include "cli/line_editor.h"

#include <histedit.h>
#include <unistd.h>

#include <clocale>
#include <iostream>
#include <utility>

#include "cli/loading.h"  // write_out

namespace pagoda::cli {
namespace {

constexpr int kHistoryLines = 1000;

// The editor decides by the locale what a letter is, and most containers have none set.
void use_utf8() {
  if (std::setlocale(LC_CTYPE, "C.UTF-8") == nullptr) std::setlocale(LC_CTYPE, "");
}

}  // namespace

struct LineEditor::Terminal {
  std::string prompt;
  EditLine* edit = nullptr;
  History* history = nullptr;
  HistEvent event{};
  bool is_cancelled = false;  // Ctrl-C while editing

  static Terminal& of(EditLine* edit) {
    void* data = nullptr;
    el_get(edit, EL_CLIENTDATA, &data);
    return *static_cast<Terminal*>(data);
  }
};

LineEditor::LineEditor(std::string prompt) {
  if (isatty(STDIN_FILENO) == 0) return;
  use_utf8();
  terminal_ = std::make_unique<Terminal>();
  Terminal& t = *terminal_;
  t.prompt = std::move(prompt);
  t.edit = el_init("pagoda", stdin, stdout, stderr);
  t.history = history_init();
  history(t.history, &t.event, H_SETSIZE, kHistoryLines);
  el_set(t.edit, EL_CLIENTDATA, &t);
  el_set(
      t.edit, EL_PROMPT, +[](EditLine* edit) { return Terminal::of(edit).prompt.data(); });
  el_set(t.edit, EL_EDITOR, "emacs");
  // Ctrl-C is a key while a line is edited, and a signal otherwise.
  el_set(t.edit, EL_SETTY, "-d", "-isig", nullptr);
  el_set(
      t.edit,
      EL_ADDFN,
      "cancel-line",
      "give the line up",
      +[](EditLine* edit, int) -> unsigned char {
        Terminal::of(edit).is_cancelled = true;
        return CC_EOF;
      });
  el_set(t.edit, EL_BIND, "^C", "cancel-line", nullptr);
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
    if (!std::exchange(t.is_cancelled, false)) return std::nullopt;
    write_out("^C\n");
    return line;
  }
  line.assign(text, count);
  while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.pop_back();
  if (!line.empty()) history(t.history, &t.event, H_ENTER, line.c_str());
  return line;
}

}  // namespace pagoda::cli
