#include "app/perplexity.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "app/sequence_runner.h"
#include "base/error.h"

namespace pagoda {
namespace {

// The sum of -log p(tokens[i + 1] | tokens[..i]) for i from half of the window on.
double score(SequenceRunner& runner, std::span<const int32_t> tokens) {
  const auto window = int32_t(tokens.size());
  runner.reset();
  double nll = 0;
  for (int32_t begin = 0; begin < window; begin += runner.max_step()) {
    const int32_t count = std::min(runner.max_step(), window - begin);
    runner.append(tokens.subspan(begin, count));
    std::vector<int32_t> rows;  // whose next token is scored
    for (int32_t i = std::max(begin, window / 2); i < begin + count && i + 1 < window; i++)
      rows.push_back(i - begin);
    for (size_t first = 0; first < rows.size(); first += runner.max_rows()) {
      const auto some =
          std::span(rows).subspan(first, std::min<size_t>(runner.max_rows(), rows.size() - first));
      const std::span<const float> logits = runner.logits(some);
      const size_t V = logits.size() / some.size();
      for (size_t r = 0; r < some.size(); r++)
        nll += negative_log_likelihood(logits.subspan(r * V, V), tokens[begin + some[r] + 1]);
    }
  }
  return nll;
}

}  // namespace

PerplexityResult perplexity(Deployment& deployment,
                            std::span<const int32_t> tokens,
                            int32_t window,
                            const std::function<void(int64_t, int64_t, double)>& progress) {
  const auto num_windows = int64_t(tokens.size()) / window;
  if (num_windows == 0)
    throw Error("request.too_short",
                "the text has {} tokens, less than one window of {}; use a longer text or a "
                "smaller --context",
                tokens.size(),
                window);
  const Tokenizer& tokenizer = deployment.tokenizer();
  SequenceRunner runner(deployment, window);
  PerplexityResult result;
  double nll = 0;
  for (int64_t w = 0; w < num_windows; w++) {
    std::vector<int32_t> ids(tokens.begin() + w * window, tokens.begin() + (w + 1) * window);
    if (tokenizer.adds_bos()) ids[0] = tokenizer.bos();
    nll += score(runner, ids);
    result.num_windows++;
    result.num_scored += window - 1 - window / 2;
    result.nll = nll / double(result.num_scored);
    result.perplexity = std::exp(result.nll);
    if (progress) progress(w + 1, num_windows, result.perplexity);
  }
  return result;
}

}  // namespace pagoda
