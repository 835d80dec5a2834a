#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "backend/reference_ops.h"
#include "base/random.h"

namespace pagoda::reference {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

void penalise(std::vector<double>& logits, const SampleRow& row) {
  for (const TokenCount& count : row.counts) {
    double& logit = logits[count.token];
    if (count.in_prompt + count.in_output > 0)
      logit = logit > 0 ? logit / double(row.repetition_penalty)
                        : logit * double(row.repetition_penalty);
    if (count.in_output > 0)
      logit -= double(row.presence_penalty) + double(row.frequency_penalty) * count.in_output;
  }
  for (const TokenValue& bias : row.bias)
    logits[bias.token] = bias.value <= kBanBias ? -kInfinity : logits[bias.token] + bias.value;
  if (row.mask.empty()) return;
  for (size_t i = 0; i < logits.size(); i++)
    if (!(row.mask[i / 32] >> (i % 32) & 1)) logits[i] = -kInfinity;
}

double log_sum_exp(const std::vector<double>& logits) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (double logit : logits) sum += std::exp(logit - largest);
  return largest + std::log(sum);
}

// How many of the tokens `order` (descending) pass top-k, then top-p, then min-p. `p`: by rank,
// unnormalised.
size_t kept_count(const std::vector<double>& p, const SampleRow& row) {
  size_t kept = row.top_k > 0 ? std::min<size_t>(row.top_k, p.size()) : p.size();
  if (row.top_p < 1) {
    const double total = std::accumulate(p.begin(), p.begin() + kept, 0.0);
    double sum = 0;
    size_t n = 0;
    while (n < kept && (n == 0 || sum < double(row.top_p) * total)) sum += p[n++];
    kept = n;
  }
  while (kept > 1 && p[kept - 1] < double(row.min_p) * p[0]) kept--;
  return kept;
}

int32_t draw(const std::vector<double>& logits,
             const std::vector<int32_t>& order,
             const SampleRow& row) {
  if (row.temperature <= 0) return order[0];
  std::vector<double> p;
  for (int32_t token : order)
    p.push_back(std::exp((logits[token] - logits[order[0]]) / double(row.temperature)));
  const size_t kept = kept_count(p, row);
  const double total = std::accumulate(p.begin(), p.begin() + kept, 0.0);
  const double passed = uniform_draw(row.seed, row.choice, row.position) * total;
  double sum = 0;
  for (size_t i = 0; i < kept; i++) {
    sum += p[i];
    if (sum > passed) return order[i];
  }
  return order[kept - 1];
}

}  // namespace

void process_logits(const ProcessLogitsArgs& args) {
  for (int64_t r = 0; r < args.logits.rows(); r++) {
    float* values = args.logits.row<float>(r);
    std::vector<double> logits(values, values + args.logits.cols());
    penalise(logits, args.rows[r]);
    std::transform(logits.begin(), logits.end(), values, [](double v) { return float(v); });
  }
}

void sample(const SampleArgs& args) {
  for (auto& entry : args.top_logprobs) entry = {-1, 0.f};
  for (int64_t r = 0; r < args.logits.rows(); r++) {
    const SampleRow& row = args.rows[r];
    const float* values = args.logits.row<float>(r);
    const std::vector<double> logits(values, values + args.logits.cols());
    const bool usable =
        std::none_of(logits.begin(),
                     logits.end(),
                     [](double v) { return std::isnan(v) || v == kInfinity; }) &&
        std::any_of(logits.begin(), logits.end(), [](double v) { return v > -kInfinity; });
    args.out[r] = {.token = -1, .has_nan = !usable, .logprob = 0.f};
    if (!usable) continue;
    std::vector<int32_t> order(logits.size());
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
      return logits[a] > logits[b] || (logits[a] == logits[b] && a < b);
    });
    while (logits[order.back()] == -kInfinity) order.pop_back();
    args.out[r].token = draw(logits, order, row);
    if (row.num_logprobs < 0) continue;
    const double normaliser = log_sum_exp(logits);
    args.out[r].logprob = float(logits[args.out[r].token] - normaliser);
    const int64_t wanted =
        std::min<int64_t>({row.num_logprobs, args.max_logprobs, int64_t(order.size())});
    for (int64_t i = 0; i < wanted; i++)
      args.top_logprobs[r * args.max_logprobs + i] = {order[i],
                                                      float(logits[order[i]] - normaliser)};
  }
}

}  // namespace pagoda::reference
