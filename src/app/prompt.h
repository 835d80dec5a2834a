// From what a person typed to the prompt's token ids: through the model's chat template, or as it
// is.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/deployment.h"

namespace pagoda {

// The messages rendered by the model's template, up to where the assistant speaks.
std::vector<int32_t> chat_prompt(const Deployment& deployment,
                                 std::span<const ChatMessage> messages);
// The text itself, with BOS where the model asks for one.
std::vector<int32_t> raw_prompt(const Deployment& deployment, std::string_view text);

// The sampling that `given` and the model's generation config leave open gets the defaults of `run`
// and `chat`.
struct GivenSampling {
  bool temperature = false, top_p = false, top_k = false, min_p = false;
};
void fill_defaults(SamplingParams& params, GivenSampling given, const GenerationDefaults& defaults);

}  // namespace pagoda
