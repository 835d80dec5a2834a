#include "model/config.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace pagoda {
namespace {

constexpr double kTwoPi = 6.283185307179586;

void require(bool holds, const char* field, double value) {
  if (!holds)
    throw Error("model.bad_config",
                "the config's {} is {}, which no supported model can have",
                field,
                value);
}

// The llama3 rule (Llama 3.1 reference implementation): long wavelengths are slowed by `factor`,
// short ones kept, those between interpolated.
double llama3_scaled(double frequency, const RopeConfig& rope) {
  const double wavelength = kTwoPi / frequency;
  const double low = rope.original_context / double(rope.low_freq_factor);
  const double high = rope.original_context / double(rope.high_freq_factor);
  if (wavelength < high) return frequency;
  if (wavelength > low) return frequency / rope.factor;
  const double smooth = (rope.original_context / wavelength - rope.low_freq_factor) /
                        (rope.high_freq_factor - rope.low_freq_factor);
  return (1 - smooth) * frequency / rope.factor + smooth * frequency;
}

// YaRN, equations 17-23 of Peng et al. 2023 as Hugging Face computes them: a ramp over the
// dimensions between the two betas.
double yarn_scaled(double frequency, int32_t index, int32_t rotary_dim, const RopeConfig& rope) {
  auto dimension_of = [&](double rotations) {
    return rotary_dim * std::log(rope.original_context / (rotations * kTwoPi)) /
           (2 * std::log(double(rope.theta)));
  };
  const double low = std::max(std::floor(dimension_of(rope.beta_fast)), 0.0);
  double high = std::min(std::ceil(dimension_of(rope.beta_slow)), rotary_dim - 1.0);
  if (high == low) high += 0.001;
  const double ramp = std::clamp((index - low) / (high - low), 0.0, 1.0);
  return frequency / rope.factor * ramp + frequency * (1 - ramp);
}

}  // namespace

std::vector<KvLayerSpec> ModelConfig::kv_specs() const {
  std::vector<KvLayerSpec> specs;
  for (const LayerConfig& layer : layers)
    specs.push_back({num_kv_heads, head_dim, head_dim, layer.window, 0});
  return specs;
}

void ModelConfig::validate() const {
  require(vocab_size >= 1 && vocab_size <= (1 << 24), "vocabulary size", vocab_size);
  require(hidden_size >= 1 && hidden_size <= (1 << 20), "hidden size", hidden_size);
  require(num_layers >= 1 && num_layers <= 1024, "number of layers", num_layers);
  require(int32_t(layers.size()) == num_layers, "number of described layers", layers.size());
  require(num_heads >= 1 && num_heads <= 1024, "number of heads", num_heads);
  require(num_kv_heads >= 1 && num_heads % num_kv_heads == 0, "number of KV heads", num_kv_heads);
  require(num_heads / num_kv_heads <= 128, "heads per KV head", num_heads / num_kv_heads);
  require(head_dim >= 16 && head_dim <= 256 && head_dim % 16 == 0, "head size", head_dim);
  require(intermediate_size >= 1 && intermediate_size <= (1 << 22),
          "feed-forward size",
          intermediate_size);
  require(max_context >= 1, "context length", max_context);
  require(norm_epsilon > 0 && norm_epsilon < 1, "norm epsilon", norm_epsilon);
  require(rotary_dim >= 0 && rotary_dim <= head_dim && rotary_dim % 2 == 0,
          "rotary dimension",
          rotary_dim);
  require(rope_style == RopeStyle::none || rotary_dim > 0, "rotary dimension", rotary_dim);
  require(
      std::isfinite(attention_scale) && attention_scale > 0, "attention scale", attention_scale);
  for (const RopeConfig& rope : ropes) {
    require(std::isfinite(rope.theta) && rope.theta > 1, "rope base", rope.theta);
    require(std::isfinite(rope.factor) && rope.factor > 0, "rope factor", rope.factor);
    require(rope.scaling == RopeScaling::none || rope.scaling == RopeScaling::linear ||
                rope.original_context > 0,
            "original context length",
            rope.original_context);
    require(rope.divisors.empty() || int64_t(rope.divisors.size()) == rotary_dim / 2,
            "number of rope factors",
            rope.divisors.size());
  }
  for (const LayerConfig& layer : layers) {
    require(layer.window >= 0, "attention window", layer.window);
    require(rope_style == RopeStyle::none ||
                (layer.rope_index >= 0 && layer.rope_index < int32_t(ropes.size())),
            "rope index",
            layer.rope_index);
  }
}

RopeFrequencies rope_frequencies(const RopeConfig& rope, int32_t rotary_dim) {
  RopeFrequencies result;
  for (int32_t i = 0; i < rotary_dim / 2; i++) {
    double frequency = std::pow(double(rope.theta), -2.0 * i / rotary_dim);
    if (!rope.divisors.empty()) frequency /= rope.divisors[i];
    switch (rope.scaling) {
      case RopeScaling::none:
        break;
      case RopeScaling::linear:
        frequency /= rope.factor;
        break;
      case RopeScaling::llama3:
        frequency = llama3_scaled(frequency, rope);
        break;
      case RopeScaling::yarn:
        frequency = yarn_scaled(frequency, i, rotary_dim, rope);
        break;
    }
    result.inv_freq.push_back(float(frequency));
  }
  if (rope.scaling == RopeScaling::yarn && rope.factor > 1)
    result.magnitude = float(0.1 * std::log(double(rope.factor)) + 1.0);
  return result;
}

}  // namespace pagoda
