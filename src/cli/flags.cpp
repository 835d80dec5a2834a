#include "cli/flags.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>

#include "backend/kv_format.h"
#include "base/error.h"

namespace pagoda::cli {
namespace {

const char* const kEngineGroup = "Engine";
constexpr int32_t kMaxBlockSize = 1024;
const std::vector<std::string> kDevices = {"auto", "cpu", "cuda"};

// CLI11 takes -1 and what is too large for the largest number.
uint64_t parse_seed(const std::string& text) {
  uint64_t seed = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
  if (error != std::errc() || end != text.data() + text.size())
    throw CLI::ValidationError("--seed",
                               fmt::format("expected 0 to {}, found {}", UINT64_MAX, text));
  return seed;
}

std::string checked_block_size(std::string& text) {
  int32_t size = 0;
  if (text == "auto") return text = "0", "";
  const bool is_number = CLI::detail::lexical_cast(text, size);
  if (is_number && size >= 16 && size <= kMaxBlockSize && size % 16 == 0) return "";
  return fmt::format(
      "expected auto or a multiple of 16 up to {}, found \"{}\"", kMaxBlockSize, text);
}

std::string checked_device(const std::string& text) {
  for (const std::string& device : kDevices)
    if (text == device) return "";
  if (text.rfind("cuda:", 0) == 0 && text.size() > 5 &&
      text.find_first_not_of("0123456789", 5) == std::string::npos)
    return "";
  return "expected auto, cpu, cuda or cuda:N, found " + text;
}

// How much of what is kept, and in which form.
void add_memory_flags(CLI::App& command, EngineSettings& s) {
  std::vector<std::string> dtypes(kKvDTypeNames.begin(), kKvDTypeNames.end());
  dtypes.emplace_back("auto");
  command
      .add_option("--max-model-len,--context,--ctx-size",
                  s.max_model_len,
                  "tokens of one sequence, prompt and answer [the model's, at most 8192]")
      ->check(CLI::Range(1, 1 << 27))
      ->group(kEngineGroup);
  command
      .add_option(
          "--kv-cache-dtype", s.kv_cache_dtype, "auto, f32, f16, bf16, int8, int4 or fp8 [auto]")
      ->check(CLI::IsMember(dtypes))
      ->group(kEngineGroup);
  command
      .add_option_function<std::string>(
          "--kv-cache-memory-bytes",
          [&s](const std::string& text) {
            try {
              s.kv_cache_memory_bytes = parse_bytes(text);
            } catch (const Error& e) {
              throw CLI::ValidationError("--kv-cache-memory-bytes", e.message());
            }
          },
          "memory of the KV cache, such as 4GiB [what the sequences need]")
      ->group(kEngineGroup);
  command
      .add_option(
          "--block-size", s.block_size, "auto, or tokens in a KV block: a multiple of 16 [auto]")
      ->transform(CLI::Validator(checked_block_size, "", ""))
      ->group(kEngineGroup);
  command.add_option("--max-num-seqs,--sequences", s.max_num_seqs, "sequences that run at once")
      ->check(CLI::Range(1, 65536))
      ->group(kEngineGroup);
  command
      .add_option(
          "--max-num-batched-tokens", s.max_num_batched_tokens, "token budget of a step [512]")
      ->check(CLI::Range(1, 1 << 20))
      ->group(kEngineGroup);
}

}  // namespace

int64_t parse_bytes(const std::string& text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string unit(end, text.data() + text.size());
  unit.erase(0, unit.find_first_not_of(' '));
  const double scale = unit == "" || unit == "B" ? 1
                       : unit == "KiB"           ? 0x1p10
                       : unit == "MiB"           ? 0x1p20
                       : unit == "GiB"           ? 0x1p30
                       : unit == "TiB"           ? 0x1p40
                                                 : 0;
  if (error != std::errc() || scale == 0 || !(number * scale >= 1) || number * scale >= 0x1p62)
    throw Error(
        "usage.bad_size",
        "\"{}\" is no size: expected a number of bytes above 0, or one with KiB, MiB, GiB or TiB",
        text);
  return std::llround(number * scale);
}

void add_json_flag(CLI::App& command, Output& output) {
  command.add_flag("--json", output.is_json, "print one JSON document on stdout and nothing else");
}

void add_engine_flags(CLI::App& command, EngineSettings& s) {
  command.add_option("--device", s.device, "auto, cpu, cuda or cuda:N [auto]")
      ->check(CLI::Validator(checked_device, "DEVICE"))
      ->group(kEngineGroup);
  command
      .add_option("--threads", s.threads, "CPU threads [physical cores within affinity and quota]")
      ->check(CLI::Range(1, 4096))
      ->group(kEngineGroup);
  add_memory_flags(command, s);
  command
      .add_flag("--enable-prefix-caching,!--no-enable-prefix-caching",
                s.enable_prefix_caching,
                "reuse the KV of equal prompt starts [on]")
      ->group(kEngineGroup);
  command.add_option("--load-format", s.load_format, "auto, or dummy: random weights [auto]")
      ->transform(CLI::CheckedTransformer(std::map<std::string, LoadFormat>{
          {"auto", LoadFormat::automatic}, {"dummy", LoadFormat::dummy}}))
      ->group(kEngineGroup);
  command
      .add_option(
          "--attention", s.attention, "flash, or naive: the plain way, for comparison [flash]")
      ->transform(CLI::CheckedTransformer(std::map<std::string, AttentionAlgorithm>{
          {"flash", AttentionAlgorithm::flash}, {"naive", AttentionAlgorithm::naive}}))
      ->group(kEngineGroup);
  command
      .add_flag("--no-kv-cache",
                s.no_kv_cache,
                "compute the whole prefix again for each token, to see what the cache saves")
      ->group(kEngineGroup);
}

void add_sampling_flags(CLI::App& command, SamplingFlags& f) {
  const char* group = "Sampling";
  SamplingParams& p = f.params;
  command
      .add_option(
          "-n,--max-tokens", f.max_tokens, "tokens of the answer [to the end of the context]")
      ->check(CLI::Range(1, INT32_MAX))
      ->group(group);
  auto* temperature =
      command.add_option("--temperature", p.temperature, "0: greedy [the model's, else 0.7]")
          ->check(CLI::Range(0.0, 2.0))
          ->group(group);
  auto* top_p = command.add_option("--top-p", p.top_p, "nucleus [the model's, else 0.95]")
                    ->check(CLI::Range(0.0, 1.0))
                    ->group(group);
  auto* top_k = command.add_option("--top-k", p.top_k, "0: all [the model's, else 0]")
                    ->check(CLI::Range(0, INT32_MAX))
                    ->group(group);
  auto* min_p = command.add_option("--min-p", p.min_p, "of the largest probability [0.05]")
                    ->check(CLI::Range(0.0, 1.0))
                    ->group(group);
  command.add_option("--repetition-penalty", p.repetition_penalty, "[1]")
      ->check(CLI::Range(0.01, 100.0))
      ->group(group);
  command.add_option("--presence-penalty", p.presence_penalty, "-2 to 2 [0]")
      ->check(CLI::Range(-2.0, 2.0))
      ->group(group);
  command.add_option("--frequency-penalty", p.frequency_penalty, "-2 to 2 [0]")
      ->check(CLI::Range(-2.0, 2.0))
      ->group(group);
  command.add_option("--stop", f.stop, "text that ends the answer; may be repeated")
      ->allow_extra_args(false)
      ->group(group);
  command.add_flag("--ignore-eos", f.ignore_eos, "go on past the end-of-text token")->group(group);
  command
      .add_option(
          "--logprobs", p.num_logprobs, "log-probabilities of the N likeliest tokens (--json)")
      ->check(CLI::Range(0, 20))
      ->group(group);
  command
      .add_option_function<std::string>(
          "--seed",
          [&p](const std::string& text) { p.seed = parse_seed(text); },
          "of the draws [drawn once, and reported]")
      ->group(group);
  command.parse_complete_callback([&f, temperature, top_p, top_k, min_p] {
    f.given = {.temperature = temperature->count() > 0,
               .top_p = top_p->count() > 0,
               .top_k = top_k->count() > 0,
               .min_p = min_p->count() > 0};
  });
}

}  // namespace pagoda::cli
