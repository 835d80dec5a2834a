#include "app/perplexity.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/checked.h"
#include "base/error.h"

namespace pagoda {
namespace {

// Feeds windows through the model, each from an empty cache, over blocks 0, 1, 2, … of every layer
// group.
class WindowRunner {
 public:
  WindowRunner(Deployment& deployment, int32_t window)
      : deployment_(deployment),
        layout_(deployment.plan().kv_layout),
        window_(window),
        max_tokens_(deployment.plan().limits.max_tokens),
        max_blocks_(int32_t(ceil_div(window, layout_.block_size))),
        max_rows_(deployment.plan().limits.max_logit_rows),
        logits_(int64_t{max_rows_} * deployment.config().vocab_size) {
    // One set of blocks serves one group; a run of one sequence needs them all.
    const auto num_groups = int32_t(layout_.groups.size());
    PG_CHECK(int64_t{max_blocks_} * num_groups <= deployment.plan().num_blocks,
             "{} blocks for {} groups of {}",
             max_blocks_,
             num_groups,
             deployment.plan().num_blocks);
    for (int32_t group = 0; group < num_groups; group++) {
      tables_.emplace_back(max_blocks_);
      std::iota(tables_.back().begin(), tables_.back().end(), group * max_blocks_);
    }
  }

  // The sum of -log p(tokens[i + 1] | tokens[..i]) for i from window / 2 on.
  double score(std::span<const int32_t> tokens) {
    std::vector<int32_t> all(max_blocks_ * tables_.size());
    std::iota(all.begin(), all.end(), 0);
    deployment_.kv_storage().run(all, {});
    double nll = 0;
    for (int32_t begin = 0; begin < window_; begin += max_tokens_) {
      const int32_t count = std::min(max_tokens_, window_ - begin);
      forward(tokens.subspan(begin, count), begin);
      std::vector<int32_t> rows;  // whose next token is scored
      for (int32_t i = std::max(begin, window_ / 2); i < begin + count && i + 1 < window_; i++)
        rows.push_back(i - begin);
      for (size_t first = 0; first < rows.size(); first += max_rows_) {
        const auto some =
            std::span(rows).subspan(first, std::min<size_t>(max_rows_, rows.size() - first));
        nll += negative_log_likelihood(some, tokens.subspan(begin + 1));
      }
    }
    return nll;
  }

 private:
  void forward(std::span<const int32_t> tokens, int32_t begin) {
    const auto T = int32_t(tokens.size());
    std::vector<int32_t> positions(T);
    std::iota(positions.begin(), positions.end(), begin);
    const std::vector<int32_t> cu_q_lens = {0, T}, kv_lens = {begin + T};
    std::vector<std::vector<int32_t>> slots;
    std::vector<GroupBatch> groups;
    for (const std::vector<int32_t>& table : tables_) {
      std::vector<int32_t>& slot = slots.emplace_back(T);
      for (int32_t t = 0; t < T; t++)
        slot[t] = table[positions[t] / layout_.block_size] * layout_.block_size +
                  positions[t] % layout_.block_size;
    }
    for (size_t group = 0; group < tables_.size(); group++)
      groups.push_back(
          {slots[group], {cu_q_lens, kv_lens, tables_[group], max_blocks_, cu_q_lens, kv_lens}});
    deployment_.model().forward({.token_ids = tokens,
                                 .positions = positions,
                                 .groups = groups,
                                 .group_of_layer = layout_.group_of_layer},
                                deployment_.kv_storage().layers());
  }

  // Summed over rows r: of next[r], the token that follows row r.
  double negative_log_likelihood(std::span<const int32_t> rows, std::span<const int32_t> next) {
    const auto R = int64_t(rows.size()), V = int64_t{deployment_.config().vocab_size};
    deployment_.model().logits(
        rows, TensorView(reinterpret_cast<std::byte*>(logits_.data()), DType::f32, {R, V}));
    double nll = 0;
    for (int64_t r = 0; r < R; r++) {
      const auto row = std::span(logits_).subspan(r * V, V);
      const double largest = *std::max_element(row.begin(), row.end());
      double sum = 0;
      for (const float x : row) sum += std::exp(double(x) - largest);
      nll += std::log(sum) + largest - row[next[rows[r]]];
    }
    return nll;
  }

  Deployment& deployment_;
  const KvLayout& layout_;
  const int32_t window_, max_tokens_, max_blocks_, max_rows_;
  std::vector<std::vector<int32_t>> tables_;  // [groups][max_blocks]
  std::vector<float> logits_;                 // [max_rows, V]
};

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
  WindowRunner runner(deployment, window);
  PerplexityResult result;
  double nll = 0;
  for (int64_t w = 0; w < num_windows; w++) {
    std::vector<int32_t> ids(tokens.begin() + w * window, tokens.begin() + (w + 1) * window);
    if (tokenizer.adds_bos()) ids[0] = tokenizer.bos();
    nll += runner.score(ids);
    result.num_windows++;
    result.num_scored += window - 1 - window / 2;
    result.nll = nll / double(result.num_scored);
    result.perplexity = std::exp(result.nll);
    if (progress) progress(w + 1, num_windows, result.perplexity);
  }
  return result;
}

}  // namespace pagoda
