// Deployment: one model, loaded and ready to answer: backend, weights, KV storage, tokenizer, chat
// template and engine, put together by the memory plan. What the allocators count afterwards equals
// plan(), tag by tag: the backend's, and the host's the vocabulary where they are two. Driven by
// one thread.
//   Deployment deployment(open_model(path), settings, nullptr);
//   deployment.engine().submit(…);
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "engine/engine.h"
#include "engine/memory_plan.h"
#include "engine/model_source.h"
#include "engine/settings.h"
#include "kv/kv_storage.h"
#include "model/model.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace pagoda {

class ModelExecutor;

// Sampling that the model's own generation config asks for.
struct GenerationDefaults {
  std::optional<float> temperature, top_p, min_p;
  std::optional<int32_t> top_k;
};

// A model's chat template with its tokenizer's BOS and EOS. Throws Error{"template.missing"}
// without a source.
ChatTemplate make_chat_template(std::optional<std::string_view> source, const Tokenizer& tokenizer);

class Deployment {
 public:
  using Progress = std::function<void(int64_t done_bytes, int64_t total_bytes)>;

  // Plans, checks the plan against the memory that is there, and loads. A shape gets random
  // weights; it has no tokenizer. Throws Error: what make_memory_plan, load_weights and Tokenizer
  // throw, and "memory.alloc_failed".
  Deployment(ModelSource source, const EngineSettings& settings, const Progress& progress);
  ~Deployment();

  const MemoryPlan& plan() const { return plan_; }
  const ModelConfig& config() const { return model_->config(); }
  const GenerationDefaults& generation_defaults() const { return defaults_; }
  Engine& engine() { return *engine_; }
  bool has_tokenizer() const { return tokenizer_ != nullptr; }
  // Throws Error{"tokenizer.missing"} for a shape.
  const Tokenizer& tokenizer() const;
  // Parsed anew: a model with a template that is wrong still answers raw prompts. Throws
  // Error{"template.missing"} where the model has none, "template.syntax".
  ChatTemplate chat_template() const;
  bool has_chat_template() const { return template_source_.has_value(); }

  // The parts, for commands that run steps of their own (perplexity).
  Backend& backend() { return *backend_; }
  Model& model() { return *model_; }
  KvStorage& kv_storage() { return *kv_storage_; }
  ModelExecutor& executor() { return *executor_; }

 private:
  void load_text(const Metadata& metadata);

  std::unique_ptr<Backend> backend_;
  HostAllocator host_memory_;  // of the vocabulary, where the backend's memory is another
  MemoryPlan plan_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::optional<std::string> template_source_;
  GenerationDefaults defaults_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<KvStorage> kv_storage_;
  std::unique_ptr<ModelExecutor> executor_;
  std::unique_ptr<Engine> engine_;
};

}  // namespace pagoda
