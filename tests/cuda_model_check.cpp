// cuda_model_check: whole models of random weights on this machine's GPU against the float64
// reference backend, and the same logits whatever the chunks of the prompt. Prints one line a model
// and exits 1 if anything is off, 77 where there is no GPU.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>

#include "backend/cuda/cuda_backend.h"
#include "backend/reference.h"
#include "model/cost.h"
#include "model/model.h"
#include "model/shapes.h"

namespace pagoda {
namespace {

constexpr int32_t kBlocks = 8, kContext = 128;

struct Format {
  DType activations;
  DType weights;
  KvDType kv;
};

// Activations are rounded some twenty times in seven layers, the cache once more. Random q8_0
// weights are six times as large as the others and saturate every softmax, so errors grow in them:
// by how much the numbers of the activations matter shows that it is rounding. (Random q4_k
// weights, whose mean is not 0, drive activations out of f16.)
double limit(const Format& f) {
  const double of_activations = f.activations == DType::bf16 ? 1 : 0.125;
  const double of_kv = kv_bits(f.kv) == 16 ? 0 : kv_bits(f.kv) == 8 ? 4e-2 : 2.5e-1;
  return of_activations * (f.weights == DType::q8_0 ? 0.15 : 2e-2) + of_kv;
}

// The family's traits (windows, norms of heads and of outputs, tied embeddings) at a size that
// float64 on a CPU can follow.
ModelConfig small_config(std::string_view shape) {
  ModelConfig c = *shape_named(shape);
  c.vocab_size = 331;
  c.hidden_size = 256;
  c.num_layers = 7;
  c.layers.resize(7);
  for (LayerConfig& layer : c.layers)
    if (layer.window > 0) layer.window = 20;
  c.num_heads = 4;
  c.num_kv_heads = 2;
  c.head_dim = c.rotary_dim = 64;
  c.attention_scale = 1.f / 8;
  c.intermediate_size = 512;
  c.validate();
  return c;
}

// One sequence over its own blocks.
class Runner {
 public:
  Runner(std::unique_ptr<Backend> backend, const ModelConfig& config, const Format& format)
      : backend_(std::move(backend)),
        model_(*backend_,
               config,
               dummy_weights(config, format.weights, 3, *backend_),
               {.max_tokens = 64, .max_seqs = 1, .max_logit_rows = 1, .max_context = kContext}),
        group_of_layer_(config.num_layers, 0) {
    const KvFormat kv = {format.kv, 64, config.head_dim, config.head_dim};
    const int64_t layer_bytes = kBlocks * config.num_kv_heads * kv.head_bytes();
    kv_ = backend_->allocator().allocate(layer_bytes * config.num_layers, MemoryTag::kv);
    for (int32_t i = 0; i < config.num_layers; i++)
      layers_.push_back({kv_.data() + i * layer_bytes, kBlocks, config.num_kv_heads, kv});
    logits_ = backend_->allocator().allocate(config.vocab_size * 4, MemoryTag::logits);
  }

  // Logits after the last of `ids`, of which `prompt` are the prompt's, in steps of `chunk` tokens.
  std::vector<float> run(const std::vector<int32_t>& ids, int32_t prompt, int32_t chunk) {
    const auto T = static_cast<int32_t>(ids.size());
    int32_t last = 0;
    for (int32_t begin = 0; begin < T;) {
      const int32_t end = std::min(T, begin < prompt ? std::min(begin + chunk, prompt) : begin + 1);
      step({ids.data() + begin, static_cast<size_t>(end - begin)}, begin, prompt);
      last = end - begin - 1;
      begin = end;
    }
    const Device<int32_t> row(*backend_, {last});
    const int64_t V = model_.config().vocab_size;
    model_.logits(row.span(), TensorView(logits_.data(), DType::f32, {1, V}));
    backend_->synchronize();
    std::vector<float> logits(V);
    backend_->copy_to_host(
        reinterpret_cast<std::byte*>(logits.data()), logits_.data(), logits_.size());
    return logits;
  }

 private:
  template <typename T>
  class Device {
   public:
    Device(Backend& backend, const std::vector<T>& host)
        : size_(host.size()),
          buffer_(backend.allocator().allocate(int64_t(size_ * sizeof(T)), MemoryTag::workspace)) {
      backend.copy_to_device(
          buffer_.data(), reinterpret_cast<const std::byte*>(host.data()), buffer_.size());
    }
    std::span<const T> span() const { return {buffer_.template as<const T>(), size_}; }

   private:
    size_t size_;
    Buffer buffer_;
  };

  void step(std::span<const int32_t> ids, int32_t begin, int32_t prompt) {
    const auto T = static_cast<int32_t>(ids.size()), end = begin + T;
    std::vector<int32_t> positions(T), slots(T), table = {3, 1};
    std::iota(positions.begin(), positions.end(), begin);
    for (int32_t t = 0; t < T; t++) slots[t] = table[(begin + t) / 64] * 64 + (begin + t) % 64;
    const std::vector<int32_t> cu_q_lens = {0, T}, kv_lens = {end};
    const std::vector<int32_t> sampling = {std::max(0, end - std::max(begin, prompt - 1))};
    const Device<int32_t> ids_on(*backend_, {ids.begin(), ids.end()}),
        positions_on(*backend_, positions), slots_on(*backend_, slots), table_on(*backend_, table),
        cu_on(*backend_, cu_q_lens), kv_on(*backend_, kv_lens);
    const GroupBatch group{
        slots_on.span(),
        {cu_on.span(), kv_on.span(), table_on.span(), 2, cu_q_lens, kv_lens, sampling}};
    model_.forward({.token_ids = ids_on.span(),
                    .positions = positions_on.span(),
                    .groups = std::span(&group, 1),
                    .group_of_layer = group_of_layer_},
                   layers_);
    backend_->synchronize();
  }

  std::unique_ptr<Backend> backend_;
  Model model_;
  std::vector<int32_t> group_of_layer_;
  Buffer kv_, logits_;
  std::vector<KvView> layers_;
};

double relative_error(const std::vector<float>& out, const std::vector<float>& expected) {
  double wrong = 0, size = 0;
  for (size_t i = 0; i < out.size(); i++) {
    wrong += std::pow(double(out[i]) - double(expected[i]), 2);
    size += std::pow(double(expected[i]), 2);
  }
  return std::sqrt(wrong / size);
}

std::string label(std::string_view shape, const Format& format) {
  return fmt::format("{:<13} activations {:<5} weights {:<5} KV {:<5}",
                     shape,
                     name(format.activations),
                     name(format.weights),
                     name(format.kv));
}

// Prompts ending in chunks of every kind, some tokens generated after them.
bool holds(std::string_view shape, const Format& format) {
  const ModelConfig config = small_config(shape);
  Runner reference(make_reference_backend(), config, {DType::f32, format.weights, KvDType::f32});
  Runner device(cuda::make_cuda_backend({.activations = format.activations}), config, format);
  std::vector<int32_t> ids(70);
  for (size_t i = 0; i < ids.size(); i++) ids[i] = static_cast<int32_t>(i * 31 % 331);
  const int32_t prompt = 60;
  const std::vector<float> whole = device.run(ids, prompt, 60);
  const double error = relative_error(whole, reference.run(ids, prompt, 60));
  bool same = true;
  for (const int32_t chunk : {1, 7, 33}) same &= device.run(ids, prompt, chunk) == whole;
  const bool good = error < limit(format) && same;
  fmt::print("{} relative error of the logits {:.1e}, chunks {}{}\n",
             label(shape, format),
             error,
             same ? "equal in bits" : "DIFFER",
             good ? "" : "  WRONG");
  return good;
}

int run() {
  int wrong = 0;
  for (const std::string_view shape : {"smollm2-135m", "gemma3-270m", "llama3-8b"})
    for (const Format& format : {Format{DType::bf16, DType::bf16, KvDType::bf16},
                                 Format{DType::bf16, DType::q8_0, KvDType::bf16},
                                 Format{DType::bf16, DType::q4_k, KvDType::bf16},
                                 Format{DType::f16, DType::bf16, KvDType::f16},
                                 Format{DType::f16, DType::q8_0, KvDType::f16},
                                 Format{DType::bf16, DType::bf16, KvDType::int8},
                                 Format{DType::bf16, DType::bf16, KvDType::fp8},
                                 Format{DType::bf16, DType::bf16, KvDType::int4}})
      try {
        wrong += !holds(shape, format);
      } catch (const Error& e) {
        fmt::print("{} {}\n", label(shape, format), e.message());
        wrong++;
      }
  fmt::print("cuda_model_check: {} wrong\n", wrong);
  return wrong > 0;
}

}  // namespace
}  // namespace pagoda

int main() {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  if (pagoda::cuda::num_devices() == 0) {
    fmt::print("cuda_model_check: no GPU here, skipped\n");
    return 77;
  }
  return pagoda::run();
}
