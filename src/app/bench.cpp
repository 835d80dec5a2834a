#include "app/bench.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <random>
#include <span>
#include <utility>

#include "app/roofline.h"
#include "base/checked.h"
#include "base/error.h"

namespace pagoda {
namespace {

constexpr int32_t kDefaultBatchedTokens = 512;

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double cpu_seconds_now() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return double(now.tv_sec) + 1e-9 * double(now.tv_nsec);
}

// One repetition.
struct Rate {
  double tokens_per_s = 0;
  double cpu_s_per_token = 0;
};

// The most steps from submission until all of a batch have their first token.
int32_t steps_of_prompts(int32_t batch, int32_t prompt, int32_t budget) {
  if (batch == 1) return 0;
  return int32_t(ceil_div(int64_t{batch} * prompt, std::max(1, budget - batch))) + batch + 1;
}

int32_t prompt_of_decode(int32_t depth) {
  return std::max(depth, 1);
}

std::vector<int32_t> plain_tokens(const Deployment& deployment) {
  std::vector<int32_t> tokens;
  for (int32_t id = 0; id < deployment.config().vocab_size; id++)
    if (!deployment.has_tokenizer() || (id < deployment.tokenizer().vocab_size() &&
                                        deployment.tokenizer().kind(id) == TokenKind::normal))
      tokens.push_back(id);
  if (tokens.empty())
    throw Error("tokenizer.invalid", "the vocabulary has no token that is plain text");
  return tokens;
}

class Bench {
 public:
  Bench(Deployment& deployment, uint64_t seed)
      : engine_(deployment.engine()), plain_tokens_(plain_tokens(deployment)), random_(seed) {}

  std::vector<int32_t> random_prompt(int32_t length) {
    std::vector<int32_t> prompt(static_cast<size_t>(length));
    std::uniform_int_distribution<size_t> any(0, plain_tokens_.size() - 1);
    for (int32_t& token : prompt) token = plain_tokens_[any(random_)];
    return prompt;
  }

  // From submission to the first token, of the `computed` last tokens; those before must be found
  // in the prefix cache, up to whole blocks of `block`.
  Rate prefill(const std::vector<int32_t>& prompt, int32_t computed, int32_t block) {
    const int32_t cached = (int32_t(prompt.size()) - computed) / block * block;
    const double cpu_begin = cpu_seconds_now();
    submit(prompt, 1);
    RequestOutput last;
    while (!engine_.idle())
      for (RequestOutput& output : step()) last = std::move(output);
    if (last.cached_tokens < cached)
      throw Error("bench.prefix_lost",
                  "{} tokens of the depth of {} were found in the prefix cache; give "
                  "--kv-cache-memory-bytes more",
                  last.cached_tokens,
                  cached);
    const double time = double(last.timings.first_token_us - last.timings.arrival_us) * 1e-6;
    return {computed / time, (cpu_seconds_now() - cpu_begin) / computed};
  }

  // Over `steps` steps in which every sequence has its first token.
  Rate decode(const std::vector<std::vector<int32_t>>& prompts, int32_t steps, int32_t spare) {
    const RequestId first = next_id_;
    for (const std::vector<int32_t>& prompt : prompts) submit(prompt, steps + 1 + spare);
    size_t num_started = 0;
    while (num_started < prompts.size() && !engine_.idle())
      for (const RequestOutput& output : step())
        if (!output.token_ids.empty() &&
            output.completion_tokens == int32_t(output.token_ids.size()))
          num_started++;
    int64_t num_tokens = 0;
    const double begin = seconds_now(), cpu_begin = cpu_seconds_now();
    for (int32_t i = 0; i < steps; i++)
      for (const RequestOutput& output : step()) num_tokens += int64_t(output.token_ids.size());
    const double time = seconds_now() - begin, cpu_time = cpu_seconds_now() - cpu_begin;
    for (RequestId id = first; id < next_id_; id++) engine_.cancel(id);
    while (!engine_.idle()) step();
    return {double(num_tokens) / time, cpu_time / double(num_tokens)};
  }

 private:
  void submit(const std::vector<int32_t>& prompt, int32_t max_tokens) {
    Request request;
    request.id = next_id_++;
    request.prompt = prompt;
    request.sampling.temperature = 0;
    request.max_tokens = max_tokens;
    request.ignores_eos = true;
    engine_.submit(std::move(request));
  }

  std::span<RequestOutput> step() {
    const std::span<RequestOutput> outputs = engine_.step();
    for (const RequestOutput& output : outputs)
      if (output.finish_reason == FinishReason::error)
        throw Error(output.error_kind, output.error_message);
    return outputs;
  }

  Engine& engine_;
  const std::vector<int32_t> plain_tokens_;
  std::mt19937_64 random_;
  RequestId next_id_ = 1;
};

double median(const std::vector<Rate>& rates, double Rate::*value) {
  std::vector<double> values;
  for (const Rate& rate : rates) values.push_back(rate.*value);
  std::sort(values.begin(), values.end());
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

void set_rates(const std::vector<Rate>& rates, BenchRow& row) {
  const auto [min, max] =
      std::minmax_element(rates.begin(), rates.end(), [](const Rate& a, const Rate& b) {
        return a.tokens_per_s < b.tokens_per_s;
      });
  row.tokens_per_s = median(rates, &Rate::tokens_per_s);
  row.cpu_s_per_token = median(rates, &Rate::cpu_s_per_token);
  row.min = min->tokens_per_s;
  row.max = max->tokens_per_s;
}

// What every test of one bench() shares.
struct Context {
  Bench bench;
  StepCost cost;
  const MemoryPlan& plan;
  const cpu::MachineLimits& limits;
  int32_t repetitions;
};

BenchRow measure_prefill(Context& c, int32_t prompt, int32_t depth) {
  const std::vector<int32_t> prefix = c.bench.random_prompt(depth);
  const int32_t block = c.plan.kv_layout.block_size;
  std::vector<Rate> rates;
  for (int32_t i = -1; i < c.repetitions; i++) {  // the first warms up
    if (depth > 0) c.bench.prefill(prefix, depth, block);
    std::vector<int32_t> whole = prefix;
    const std::vector<int32_t> rest = c.bench.random_prompt(prompt);
    whole.insert(whole.end(), rest.begin(), rest.end());
    const Rate rate = c.bench.prefill(whole, prompt, block);
    if (i >= 0) rates.push_back(rate);
  }
  BenchRow row{.test = BenchTest::prefill, .prompt = prompt, .depth = depth};
  const StepLimit limit =
      limit_of(c.cost.prefill(prompt, depth, c.plan.limits.max_tokens), c.limits);
  row.is_memory_bound = limit.is_memory_bound;
  row.limit_tokens_per_s = prompt / limit.seconds;
  set_rates(rates, row);
  return row;
}

BenchRow measure_decode(Context& c, int32_t generated, int32_t depth, int32_t batch) {
  const int32_t prompt = prompt_of_decode(depth);
  std::vector<std::vector<int32_t>> prompts;
  for (int32_t i = 0; i < batch; i++) prompts.push_back(c.bench.random_prompt(prompt));
  const int32_t spare = steps_of_prompts(batch, prompt, c.plan.limits.max_tokens);
  std::vector<Rate> rates;
  c.bench.decode(prompts, 1, spare);  // warms up, and leaves the prompts in the prefix cache
  for (int32_t i = 0; i < c.repetitions; i++)
    rates.push_back(c.bench.decode(prompts, generated, spare));
  BenchRow row{.test = BenchTest::decode,
               .prompt = prompt,
               .generated = generated,
               .depth = depth,
               .batch = batch};
  const StepLimit limit = limit_of(c.cost.decode(batch, prompt + generated / 2), c.limits);
  row.is_memory_bound = limit.is_memory_bound;
  row.limit_tokens_per_s = batch / limit.seconds;
  set_rates(rates, row);
  return row;
}

void check_options(const BenchOptions& options, const EngineSettings& given) {
  if (given.no_kv_cache) throw Error("usage.bench", "--no-kv-cache: bench measures with the cache");
  const auto is_zero = [](int32_t count) { return count == 0; };
  if (std::ranges::all_of(options.prompts, is_zero) &&
      std::ranges::all_of(options.generated, is_zero))
    throw Error("usage.bench", "-p 0 with -n 0 measures nothing");
  const bool has_depth = std::any_of(
      options.depths.begin(), options.depths.end(), [](int32_t depth) { return depth > 0; });
  if (has_depth && !given.enable_prefix_caching)
    throw Error("usage.bench",
                "--no-enable-prefix-caching: -d above 0 needs the prefix cache, where the depth is "
                "found");
}

}  // namespace

EngineSettings bench_settings(const BenchOptions& options,
                              EngineSettings given,
                              const ModelConfig& config) {
  check_options(options, given);
  const int32_t most = given.max_model_len > 0 ? std::min(given.max_model_len, config.max_context)
                                               : config.max_context;
  const int32_t batch = *std::max_element(options.batches.begin(), options.batches.end());
  const int32_t budget = std::max(
      batch,
      given.max_num_batched_tokens > 0 ? given.max_num_batched_tokens : kDefaultBatchedTokens);
  int64_t need = 1;
  auto add = [&](int64_t tokens, const std::string& flags) {
    if (tokens > most)
      throw Error("usage.bench",
                  "{} needs {} tokens; {} is {}",
                  flags,
                  tokens,
                  most < config.max_context ? "--max-model-len" : "the model's context",
                  most);
    need = std::max(need, tokens);
  };
  for (const int32_t depth : options.depths) {
    for (const int32_t prompt : options.prompts)
      if (prompt > 0)
        add(int64_t{depth} + prompt + 1, fmt::format("-d {} with -p {}", depth, prompt));
    for (const int32_t generated : options.generated)
      for (const int32_t b : options.batches)
        if (generated > 0)
          add(int64_t{prompt_of_decode(depth)} + generated + 1 +
                  steps_of_prompts(b, prompt_of_decode(depth), budget),
              fmt::format("-d {} with -n {} and -b {}", depth, generated, b));
  }
  given.max_model_len = int32_t(std::max<int64_t>(need, given.max_model_len));
  // Beside the measured sequences the cache keeps the prefix that was primed for them, windows and
  // all.
  constexpr int32_t kRoomForPrefix = 2;
  given.max_num_seqs = std::max(given.max_num_seqs, batch + kRoomForPrefix);
  return given;
}

std::vector<BenchRow> bench(Deployment& deployment,
                            const BenchOptions& options,
                            const cpu::MachineLimits& limits,
                            const std::function<void(const BenchRow&)>& on_row) {
  Context context{Bench(deployment, options.seed),
                  StepCost(deployment.model(), deployment.plan().kv_layout),
                  deployment.plan(),
                  limits,
                  options.repetitions};
  std::vector<BenchRow> rows;
  auto add = [&](BenchRow row) {
    rows.push_back(row);
    on_row(row);
  };
  for (const int32_t depth : options.depths) {
    for (const int32_t prompt : options.prompts)
      if (prompt > 0) add(measure_prefill(context, prompt, depth));
    for (const int32_t generated : options.generated)
      for (const int32_t batch : options.batches)
        if (generated > 0) add(measure_decode(context, generated, depth, batch));
  }
  return rows;
}

}  // namespace pagoda
