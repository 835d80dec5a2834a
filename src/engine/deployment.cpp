#include "engine/deployment.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "engine/batch_builder.h"
#include "engine/model_executor.h"
#include "engine/text_stream.h"

namespace pagoda {
namespace {

constexpr int32_t kMaxLogprobs = 20;

GenerationDefaults generation_defaults_in(const Metadata& m) {
  GenerationDefaults defaults;
  auto real = [&](std::string_view gguf, std::string_view folder) -> std::optional<float> {
    for (const std::string_view key : {gguf, folder})
      if (m.has(key)) return float(m.real(key));
    return std::nullopt;
  };
  defaults.temperature = real("general.sampling.temp", "generation_config.temperature");
  defaults.top_p = real("general.sampling.top_p", "generation_config.top_p");
  defaults.min_p = real("general.sampling.min_p", "generation_config.min_p");
  if (const auto top_k = real("general.sampling.top_k", "generation_config.top_k"))
    defaults.top_k = int32_t(std::clamp(*top_k, 0.f, 1e6f));
  return defaults;
}

ModelWeights weights_of(const ModelSource& source,
                        const EngineSettings& settings,
                        Backend& backend,
                        const Deployment::Progress& progress) {
  const ModelDescription& d = source.description;
  const bool is_dummy = settings.load_format == LoadFormat::dummy;
  if (source.checkpoint != nullptr && !is_dummy)
    return load_weights(d.config, d.names, *source.checkpoint, backend, progress);
  if (!is_dummy)
    throw Error("model.no_weights",
                "{} is a shape without weights; --load-format dummy runs it with random ones",
                d.config.name);
  return dummy_weights(d.config, kShapeDType, settings.seed, backend);
}

}  // namespace

ChatTemplate make_chat_template(std::optional<std::string_view> source,
                                const Tokenizer& tokenizer) {
  if (!source)
    throw Error("template.missing",
                "the model has no chat template; --raw gives the prompt as it is");
  ChatTemplate::Options options;
  if (tokenizer.bos() >= 0) options.bos_token = tokenizer.token_bytes(tokenizer.bos());
  if (tokenizer.eos() >= 0) options.eos_token = tokenizer.token_bytes(tokenizer.eos());
  return ChatTemplate(*source, std::move(options));
}

Deployment::Deployment(ModelSource source, const EngineSettings& settings, const Progress& progress)
    : backend_(make_backend(settings)) {
  const ModelConfig config = source.description.config;
  plan_ = make_memory_plan(
      config, source.sizes(*backend_), settings, *backend_, available_memory_bytes(*backend_));
  check_fits(plan_);
  if (source.checkpoint != nullptr) load_text(source.checkpoint->metadata());
  model_ = std::make_unique<Model>(
      *backend_, config, weights_of(source, settings, *backend_, progress), plan_.limits);
  kv_storage_ = std::make_unique<KvStorage>(*backend_, plan_.kv_layout, plan_.num_blocks);

  EngineOptions options;
  options.max_model_len = plan_.max_model_len;
  options.max_num_seqs = plan_.max_num_seqs;
  options.max_num_batched_tokens = plan_.limits.max_tokens;
  options.max_logprobs = kMaxLogprobs;
  options.kv_reuse = settings.no_kv_cache ? KvReuse::recomputed : KvReuse::kept;
  options.vocabulary = config.vocab_size;
  options.seed = settings.seed;
  if (tokenizer_ != nullptr) {
    const auto ends = tokenizer_->end_of_generation();
    options.eos_ids.assign(ends.begin(), ends.end());
    options.make_text = text_streams(*tokenizer_);
  }
  const bool caches_prefixes = settings.enable_prefix_caching && !settings.no_kv_cache;
  const KvCacheOptions kv = KvCacheOptions::of(plan_.kv_layout, plan_.num_blocks, caches_prefixes);
  const SchedulerOptions scheduling{.max_num_seqs = options.max_num_seqs,
                                    .token_budget = options.max_num_batched_tokens,
                                    .max_model_len = options.max_model_len};
  executor_ = std::make_unique<ModelExecutor>(*backend_,
                                              *model_,
                                              *kv_storage_,
                                              step_limits(scheduling, kv, options.max_logprobs),
                                              settings.attention);
  engine_ = std::make_unique<Engine>(std::move(options), kv, *executor_);
}

Deployment::~Deployment() = default;

void Deployment::load_text(const Metadata& metadata) {
  Allocator& host = backend_->uses_host_memory() ? backend_->allocator() : host_memory_;
  tokenizer_ = std::make_unique<Tokenizer>(metadata, host);
  defaults_ = generation_defaults_in(metadata);
  if (metadata.has("tokenizer.chat_template"))
    template_source_ = metadata.string("tokenizer.chat_template");
}

const Tokenizer& Deployment::tokenizer() const {
  if (tokenizer_ == nullptr) throw Error("tokenizer.missing", "a built-in shape has no tokenizer");
  return *tokenizer_;
}

ChatTemplate Deployment::chat_template() const {
  return make_chat_template(template_source_, tokenizer());
}

}  // namespace pagoda
