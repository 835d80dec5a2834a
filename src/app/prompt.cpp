#include "app/prompt.h"

namespace pagoda {
namespace {

constexpr float kTemperature = 0.7f, kTopP = 0.95f, kMinP = 0.05f;

}  // namespace

std::vector<int32_t> chat_prompt(const Deployment& deployment,
                                 std::span<const ChatMessage> messages) {
  const RenderedPrompt prompt = deployment.chat_template().render_chat(messages, {});
  const Tokenizer& tokenizer = deployment.tokenizer();
  return tokenizer.encode_parts(prompt, {.add_bos = tokenizer.adds_bos()});
}

std::vector<int32_t> raw_prompt(const Deployment& deployment, std::string_view text) {
  const Tokenizer& tokenizer = deployment.tokenizer();
  return tokenizer.encode(text, {.add_bos = tokenizer.adds_bos()});
}

void fill_defaults(SamplingParams& params,
                   GivenSampling given,
                   const GenerationDefaults& defaults) {
  if (!given.temperature) params.temperature = defaults.temperature.value_or(kTemperature);
  if (!given.top_p) params.top_p = defaults.top_p.value_or(kTopP);
  if (!given.min_p) params.min_p = defaults.min_p.value_or(kMinP);
  if (!given.top_k) params.top_k = defaults.top_k.value_or(0);
}

}  // namespace pagoda
