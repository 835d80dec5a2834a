#include "app/chat.h"

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/errors.h"
#include "cli/flags.h"
#include "cli/interrupt.h"
#include "cli/line_editor.h"
#include "cli/loading.h"

namespace pagoda::cli {
namespace {

struct Flags {
  EngineSettings settings;
  SamplingFlags sampling;
  std::string model, system;
};

int chat(Flags& flags) {
  const auto deployment = load(flags.model, flags.settings, nullptr);
  (void)deployment->chat_template();  // a model without one is refused before the first question
  fill_defaults(flags.sampling.params, flags.sampling.given, deployment->generation_defaults());
  ChatOptions options;
  options.request.sampling = flags.sampling.params;
  options.request.max_tokens = flags.sampling.max_tokens;
  options.request.stop = flags.sampling.stop;
  options.request.ignores_eos = flags.sampling.ignore_eos;
  Chat conversation(*deployment, options, write_out);
  if (!flags.system.empty()) conversation.set_system(flags.system);
  LineEditor editor("> ");
  write_out("Type a message; /help lists the commands, /quit or Ctrl-D ends.\n");
  while (const auto line = editor.read()) {
    const InterruptScope scope;
    if (conversation.take(*line, &scope.flag()) == Chat::Next::quit) break;
    if (is_terminated()) return kInterrupted;
  }
  return kDone;
}

}  // namespace

void add_chat(CLI::App& app, int& status) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command =
      app.add_subcommand("chat", "a conversation; Ctrl-C stops an answer and not the program");
  command
      ->add_option("MODEL", flags->model, "a .gguf file, a folder, or a name in the model folder")
      ->required();
  command->add_option("--system", flags->system, "a system message");
  add_sampling_flags(*command, flags->sampling);
  add_engine_flags(*command, flags->settings);
  command->final_callback([flags, &status] { status = chat(*flags); });
}

}  // namespace pagoda::cli
