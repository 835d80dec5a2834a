#include "backend/cuda/logit_bias.h"

#include <algorithm>
#include <limits>

namespace pagoda::cuda {

std::vector<TokenValue> folded_biases(std::span<const TokenValue> biases) {
  std::vector<TokenValue> folded(biases.begin(), biases.end());
  std::stable_sort(folded.begin(), folded.end(), [](const TokenValue& a, const TokenValue& b) {
    return a.token < b.token;
  });
  size_t count = 0;
  for (const TokenValue& bias : folded) {
    const float value =
        bias.value <= kBanBias ? -std::numeric_limits<float>::infinity() : bias.value;
    if (count > 0 && folded[count - 1].token == bias.token)
      folded[count - 1].value += value;
    else
      folded[count++] = {bias.token, value};
  }
  folded.resize(count);
  return folded;
}

}  // namespace pagoda::cuda
