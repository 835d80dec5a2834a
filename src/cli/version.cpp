#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "backend/cpu/isa.h"
#include "base/threads.h"
#include "cli/flags.h"
#include "cli/loading.h"
#include "engine/model_source.h"

namespace pagoda::cli {
namespace {

void print_version(const Output& output) {
  std::vector<std::string> isas;
  for (const cpu::IsaLevel level : cpu::supported_isas()) isas.emplace_back(cpu::name(level));
  const std::string chosen(cpu::name(cpu::chosen_isa()));
  if (output.is_json) {
    const nlohmann::ordered_json document = {
        {"version", PAGODA_VERSION},
        {"build", PAGODA_BUILD},
        {"compiler", __VERSION__},
        {"cpu",
         {{"instruction_sets", isas}, {"chosen", chosen}, {"threads", default_num_threads()}}},
        {"cuda_devices", cuda_devices()}};
    write_out(document.dump(2) + "\n");
    return;
  }
  std::string list, gpus;
  for (const std::string& isa : isas) list += " " + isa;
  for (const std::string& gpu : cuda_devices()) gpus += "\n  " + gpu;
  write_out(
      fmt::format("pagoda {} ({}, g++ {})\ncpu: {} threads by default; instruction sets:{}; "
                  "chosen: {}\ncuda: {}\n",
                  PAGODA_VERSION,
                  PAGODA_BUILD,
                  __VERSION__,
                  default_num_threads(),
                  list,
                  chosen,
                  gpus.empty() ? "no GPU, or not in this build" : gpus.substr(3)));
}

}  // namespace

void add_version(CLI::App& app, int&) {
  auto output = std::make_shared<Output>();
  CLI::App* command = app.add_subcommand("version", "version, build, instruction sets and devices");
  add_json_flag(*command, *output);
  command->final_callback([output] { print_version(*output); });
}

}  // namespace pagoda::cli
