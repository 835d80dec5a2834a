// Perplexity of a text, by the convention of llama.cpp's tool: consecutive windows of n tokens,
// each scored over its second half, the first token of a window replaced by BOS where the model
// asks for one. So figures compare.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "engine/deployment.h"

namespace pagoda {

struct PerplexityResult {
  double nll = 0;  // mean negative log-likelihood of a scored token, natural log
  double perplexity = 0;
  int64_t num_scored = 0;
  int64_t num_windows = 0;
};

// `window` tokens, at most the deployment's max_model_len. Throws Error{"request.too_short"} for a
// text of less than one window. `progress(windows done, windows, perplexity so far)`.
PerplexityResult perplexity(Deployment& deployment,
                            std::span<const int32_t> tokens,
                            int32_t window,
                            const std::function<void(int64_t, int64_t, double)>& progress);

}  // namespace pagoda
