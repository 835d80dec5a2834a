#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "app/model_path.h"
#include "app/plan_report.h"
#include "cli/flags.h"
#include "engine/model_source.h"
#include "model/shapes.h"

namespace pagoda::cli {
namespace {

struct Flags {
  Output output;
  EngineSettings settings;
  std::string model;
  bool is_table = false;
};

ModelSource source_of(const std::string& model) {
  if (auto shape = shape_named(model)) return model_of_shape(std::move(*shape));
  return open_model(resolve_model(model));
}

void plan(const Flags& flags) {
  const auto backend = make_backend(flags.settings);
  const ModelSource source = source_of(flags.model);
  const ModelConfig& config = source.description.config;
  const ModelSizes sizes = source.sizes(*backend);
  const int64_t machine_bytes = available_memory_bytes(*backend);
  auto plan_for = [&](const EngineSettings& settings) {
    return make_memory_plan(config, sizes, settings, *backend, machine_bytes);
  };
  std::string text;
  if (flags.is_table) {
    std::vector<MemoryPlan> plans;
    for (const KvDType dtype : kv_dtypes_of(backend->name())) {
      EngineSettings settings = flags.settings;
      settings.kv_cache_dtype = name(dtype);
      plans.push_back(plan_for(settings));
    }
    text = flags.output.is_json ? plan_table_json(config, plans) : plan_table_text(config, plans);
  } else {
    const MemoryPlan one = plan_for(flags.settings);
    text = flags.output.is_json ? plan_json(config, one) : plan_text(config, one);
  }
  std::fputs((text + (flags.output.is_json ? "\n" : "")).c_str(), stdout);
}

}  // namespace

void add_plan(CLI::App& app, int&) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand(
      "plan", "the memory of a deployment, to the byte, before anything is loaded");
  command->add_option("MODEL", flags->model, "a model, or a built-in shape such as llama2-7b")
      ->required();
  command->add_flag("--table", flags->is_table, "every KV dtype side by side");
  add_json_flag(*command, flags->output);
  add_engine_flags(*command, flags->settings);
  command->final_callback([flags] { plan(*flags); });
}

}  // namespace pagoda::cli
