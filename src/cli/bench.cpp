#include "app/bench.h"

#include <CLI/CLI.hpp>
#include <memory>

#include "base/log.h"
#include "base/threads.h"
#include "cli/flags.h"
#include "cli/loading.h"

namespace pagoda::cli {
namespace {

struct Flags {
  Output output;
  EngineSettings settings;
  BenchOptions options;
  std::string model;
};

BenchMachine measure_machine(const EngineSettings& settings) {
  BenchMachine machine;
  machine.load = cpu::load_average();
  if (machine.load > cpu::kIdleLoad)
    log_warning("the machine is busy (load {:.1f}): these figures say little", machine.load);
  ThreadPool pool(settings.threads > 0 ? settings.threads : default_num_threads());
  machine.limits = cpu::measure_machine_limits(pool, cpu::chosen_isa());
  return machine;
}

void run(const Flags& flags) {
  if (flags.settings.device.starts_with("cuda"))
    throw Error("device.unavailable",
                "--device {}: bench compares with what a CPU allows; use --device cpu",
                flags.settings.device);
  ModelSource source = find_model(flags.model, flags.settings);
  const std::string name = source.description.config.name;
  const EngineSettings settings =
      bench_settings(flags.options, flags.settings, source.description.config);
  BenchMachine machine = measure_machine(settings);
  const auto deployment = load(std::move(source), settings);
  machine.backend = deployment->backend().name();
  if (!flags.output.is_json) write_out(bench_heading(name, machine));
  const std::vector<BenchRow> rows =
      bench(*deployment, flags.options, machine.limits, [&](const BenchRow& row) {
        if (!flags.output.is_json && !write_out(bench_line(row)))
          throw Error("output.closed", "nobody reads the standard output any more");
      });
  if (flags.output.is_json) write_out(bench_json(name, machine, rows));
}

}  // namespace

void add_bench(CLI::App& app, int&) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand(
      "bench", "speed of prefill and decode, beside what this machine allows; lists: 0,4096");
  command
      ->add_option("MODEL", flags->model, "a model, or a built-in shape with --load-format dummy")
      ->required();
  auto add_list = [&](const char* flag, std::vector<int32_t>& list, const char* what, int least) {
    command->add_option(flag, list, what)->delimiter(',')->check(CLI::Range(least, 1 << 27));
  };
  add_list("-p,--prompt", flags->options.prompts, "tokens of a prompt; 0: no prefill [512]", 0);
  add_list("-n,--generate", flags->options.generated, "tokens to decode; 0: no decode [128]", 0);
  add_list("-d,--depth", flags->options.depths, "tokens that stand before them [0]", 0);
  add_list("-b,--batch", flags->options.batches, "sequences decoded together [1]", 1);
  command->add_option("-r,--repetitions", flags->options.repetitions, "the median counts [5]")
      ->check(CLI::Range(1, 1000));
  command->add_option("--seed", flags->options.seed, "of the random tokens [0]");
  add_json_flag(*command, flags->output);
  add_engine_flags(*command, flags->settings);
  command->final_callback([flags] { run(*flags); });
}

}  // namespace pagoda::cli
