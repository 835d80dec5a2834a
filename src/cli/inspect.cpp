#include "app/inspect.h"

#include <CLI/CLI.hpp>
#include <memory>

#include "app/model_path.h"
#include "cli/flags.h"
#include "cli/loading.h"

namespace pagoda::cli {
namespace {

struct Flags {
  Output output;
  std::string file;
};

void inspect(const Flags& flags) {
  const auto checkpoint = open_checkpoint(resolve_model(flags.file));
  write_out(flags.output.is_json ? inspect_json(*checkpoint) + "\n" : inspect_text(*checkpoint));
}

}  // namespace

void add_inspect(CLI::App& app, int&) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command =
      app.add_subcommand("inspect", "what is in a model file: metadata, config, tensors");
  command->add_option("FILE", flags->file, "a .gguf file, a folder, or a name in the model folder")
      ->required();
  add_json_flag(*command, flags->output);
  command->final_callback([flags] { inspect(*flags); });
}

}  // namespace pagoda::cli
