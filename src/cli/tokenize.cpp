#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "app/model_path.h"
#include "base/error.h"
#include "cli/flags.h"
#include "cli/input.h"
#include "cli/loading.h"
#include "formats/checkpoint.h"
#include "text/tokenizer.h"

namespace pagoda::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Flags {
  Output output;
  std::string model, text = "-", file;
  std::vector<int32_t> ids;
  bool has_no_bos = false;
  bool parses_special = false;
};

std::string input_of(const Flags& flags) {
  if (!flags.file.empty()) return read_input(flags.file);
  return flags.text == "-" ? read_input("-") : flags.text;
}

// The tokenizer alone: no weights are read.
Tokenizer tokenizer_of(const std::string& model, Allocator& allocator) {
  const auto checkpoint = open_checkpoint(resolve_model(model));
  return Tokenizer(checkpoint->metadata(), allocator);
}

void tokenize(const Flags& flags) {
  HostAllocator allocator;
  const Tokenizer tokenizer = tokenizer_of(flags.model, allocator);
  const std::vector<int32_t> ids =
      tokenizer.encode(input_of(flags),
                       {.add_bos = tokenizer.adds_bos() && !flags.has_no_bos,
                        .parse_special = flags.parses_special});
  if (flags.output.is_json) {
    Json pieces = Json::array();
    for (const int32_t id : ids) pieces.push_back(tokenizer.token_bytes(id));
    const Json document = {{"ids", ids}, {"pieces", pieces}};
    write_out(document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
    return;
  }
  std::string text;
  for (const int32_t id : ids)
    text += fmt::format(
        "{:>7}  {}\n",
        id,
        Json(tokenizer.token_bytes(id)).dump(-1, ' ', false, Json::error_handler_t::replace));
  write_out(text);
}

void detokenize(const Flags& flags) {
  HostAllocator allocator;
  const Tokenizer tokenizer = tokenizer_of(flags.model, allocator);
  for (const int32_t id : flags.ids)
    if (id < 0 || id >= tokenizer.vocab_size())
      throw Error("usage.token_id",
                  "id {} is outside the vocabulary of {} tokens",
                  id,
                  tokenizer.vocab_size());
  const std::string text = tokenizer.decode(flags.ids, SpecialTokens::keep);
  const Json document = {{"text", text}};
  write_out(flags.output.is_json
                ? document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"
                : text + "\n");
}

}  // namespace

void add_tokenize(CLI::App& app, int&) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("tokenize", "text to token ids");
  command->add_option("MODEL", flags->model)->required();
  command->add_option("TEXT", flags->text, "the text; - or none: standard input");
  command->add_option("--file", flags->file, "read the text from a file");
  command->add_flag("--no-bos", flags->has_no_bos, "no BOS, even where the model asks for one");
  command->add_flag(
      "--parse-special", flags->parses_special, "recognise control tokens in the text");
  add_json_flag(*command, flags->output);
  command->final_callback([flags] { tokenize(*flags); });
}

void add_detokenize(CLI::App& app, int&) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("detokenize", "token ids to text");
  command->add_option("MODEL", flags->model)->required();
  command->add_option("IDS", flags->ids, "token ids")->required();
  add_json_flag(*command, flags->output);
  command->final_callback([flags] { detokenize(*flags); });
}

}  // namespace pagoda::cli
