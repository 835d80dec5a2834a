// Logits under a request's rules, and the draw of a token: without sorting the vocabulary. Ranking
// gives tokens in descending order one after the other, and hardly anyone asks for many.
#include <algorithm>
#include <cfloat>
#include <cmath>
#include <limits>

#include "backend/cpu/small_ops.h"
#include "base/random.h"

namespace pagoda::cpu {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The tokens of one row by descending logit and, among equals, ascending id; those at -inf are left
// out. Candidates are collected in bands below the peak and sorted in growing pieces.
class Ranking {
 public:
  // `unit`: logits this far below the peak are e times less likely. `ids` has room for the row.
  Ranking(const SampleKernels& kernels,
          std::span<const float> logits,
          float peak,
          float unit,
          int32_t* ids)
      : kernels_(kernels), logits_(logits), peak_(peak), unit_(unit), ids_(ids) {}

  bool has(int64_t rank) {
    while (rank >= sorted_) {
      if (sorted_ < collected_)
        sort_more();
      else if (next_band_ < kNumBands)
        collect_band();
      else
        return false;
    }
    return true;
  }
  int32_t operator[](int64_t rank) const { return ids_[rank]; }  // after has(rank)

 private:
  static constexpr float kBands[] = {4.f, 10.f, 20.f, kInfinity};
  static constexpr int kNumBands = 4;

  void collect_band() {
    const float low = std::max(peak_ - kBands[next_band_++] * unit_, -FLT_MAX);
    if (low >= high_) return;
    collected_ +=
        kernels_.collect(logits_.data(), int64_t(logits_.size()), low, high_, ids_ + collected_);
    high_ = low;
  }
  void sort_more() {
    const auto before = [this](int32_t a, int32_t b) {
      return logits_[a] > logits_[b] || (logits_[a] == logits_[b] && a < b);
    };
    const int64_t end = std::min(collected_, std::max<int64_t>(64, 4 * sorted_));
    if (end < collected_) std::nth_element(ids_ + sorted_, ids_ + end, ids_ + collected_, before);
    std::sort(ids_ + sorted_, ids_ + end, before);
    sorted_ = end;
  }

  const SampleKernels& kernels_;
  std::span<const float> logits_;
  float peak_, unit_;
  int32_t* ids_;
  int64_t collected_ = 0, sorted_ = 0;
  int next_band_ = 0;
  float high_ = kInfinity;
};

// Where the kept tokens end in the ranking, and the sum of their weights.
struct Kept {
  int64_t count;
  double sum;
};

// Top-k, top-p (Holtzman et al. 2020), min-p, one after the other. `total`: of all weights.
Kept filter(Ranking& ranking, const float* weights, const SampleRow& row, double total) {
  const int64_t limit = row.top_k > 0 ? row.top_k : std::numeric_limits<int64_t>::max();
  if (row.top_k > 0) {
    total = 0;
    for (int64_t i = 0; i < limit && ranking.has(i); i++) total += weights[ranking[i]];
  }
  if (row.top_p >= 1.f && row.min_p <= 0.f) return {limit, total};
  const double enough = row.top_p >= 1.f ? double(kInfinity) : double(row.top_p) * total;
  Kept kept{0, 0};
  while (kept.count < limit && ranking.has(kept.count)) {
    const float weight = weights[ranking[kept.count]];
    if (kept.count > 0 && (kept.sum >= enough || weight < row.min_p * weights[ranking[0]])) break;
    kept.sum += weight;
    kept.count++;
  }
  return kept;
}

int32_t draw(Ranking& ranking, const float* weights, const SampleRow& row, double total) {
  const Kept kept = filter(ranking, weights, row, total);
  const double passed = uniform_draw(row.seed, row.choice, row.position) * kept.sum;
  double sum = 0;
  int32_t token = -1;
  for (int64_t i = 0; i < kept.count && ranking.has(i); i++) {
    token = ranking[i];
    sum += weights[token];
    if (sum > passed) break;
  }
  return token;
}

struct RowScratch {
  float* weights;
  int32_t* ids;
};

SampledToken sample_row(const Context& context,
                        std::span<const float> logits,
                        const SampleRow& row,
                        std::span<TokenValue> top,
                        const RowScratch& scratch) {
  const SampleKernels& kernels = context.kernels.sample;
  const int64_t size = int64_t(logits.size());
  for (TokenValue& entry : top) entry = {-1, 0.f};
  const Peak peak = kernels.peak(logits.data(), size);
  if (peak.has_nan || !std::isfinite(peak.value)) return {.token = -1, .has_nan = true};
  SampledToken sampled{.token = peak.id};
  const bool greedy = row.temperature <= 0.f;
  Ranking ranking(kernels, logits, peak.value, greedy ? 1.f : row.temperature, scratch.ids);
  if (!greedy) {
    const float factor = std::min(1.f / row.temperature, FLT_MAX);
    const double total = kernels.weights(logits.data(), size, peak.value, factor, scratch.weights);
    sampled.token = draw(ranking, scratch.weights, row, total);
  }
  if (row.num_logprobs < 0) return sampled;
  const double sum = kernels.weights(logits.data(), size, peak.value, 1.f, nullptr);
  const double normaliser = double(peak.value) + std::log(sum);
  sampled.logprob = float(double(logits[sampled.token]) - normaliser);
  const int64_t wanted = std::min<int64_t>(row.num_logprobs, int64_t(top.size()));
  for (int64_t i = 0; i < wanted && ranking.has(i); i++)
    top[i] = {ranking[i], float(double(logits[ranking[i]]) - normaliser)};
  return sampled;
}

void check_token(int32_t token, int64_t vocabulary) {
  PG_CHECK(token >= 0 && token < vocabulary, "token {} of {}", token, vocabulary);
}

void process_row(std::span<float> logits, const SampleRow& row) {
  const int64_t vocabulary = int64_t(logits.size());
  for (const TokenCount& count : row.counts) {
    check_token(count.token, vocabulary);
    double logit = logits[count.token];
    if (count.in_prompt + count.in_output > 0)
      logit = logit > 0 ? logit / double(row.repetition_penalty)
                        : logit * double(row.repetition_penalty);
    if (count.in_output > 0)
      logit -= double(row.presence_penalty) + double(row.frequency_penalty) * count.in_output;
    logits[count.token] = float(logit);
  }
  for (const TokenValue& bias : row.bias) {
    check_token(bias.token, vocabulary);
    float& logit = logits[bias.token];
    logit = bias.value <= kBanBias ? -kInfinity : logit + bias.value;
  }
  if (row.mask.empty()) return;
  PG_CHECK(int64_t(row.mask.size()) == ceil_div(vocabulary, 32), "mask {}", row.mask.size());
  for (int64_t word = 0; word < int64_t(row.mask.size()); word++) {
    if (row.mask[word] == ~0u) continue;
    const int64_t end = std::min(vocabulary, (word + 1) * 32);
    for (int64_t i = word * 32; i < end; i++)
      if (!(row.mask[word] >> (i % 32) & 1)) logits[i] = -kInfinity;
  }
}

// Rows are shared out one by one; more threads than rows would have nothing to do.
template <typename Job>  // void(int64_t row, int thread)
void for_rows(Context& context, int64_t rows, const Job& job) {
  if (rows == 1) return job(0, 0);
  context.threads.run([&](int thread) {
    const Range range = share(rows, thread, context.threads.size());
    for (int64_t row = range.begin; row < range.end; row++) job(row, thread);
  });
}

}  // namespace

int64_t sample_scratch_bytes(const WorkspaceShape& shape, int num_threads) {
  return num_threads * (Scratch::bytes_for(shape.vocabulary * int64_t{sizeof(float)}) +
                        Scratch::bytes_for(shape.vocabulary * int64_t{sizeof(int32_t)}));
}

void process_logits(Context& context, const ProcessLogitsArgs& args) {
  PG_CHECK(args.logits.rows() == int64_t(args.rows.size()) && args.logits.dtype() == DType::f32,
           "{} rows of logits, {} of rules",
           args.logits.rows(),
           args.rows.size());
  for_rows(context, args.logits.rows(), [&](int64_t r, int) {
    process_row({args.logits.row<float>(r), size_t(args.logits.cols())}, args.rows[r]);
  });
}

void sample(Context& context, const SampleArgs& args) {
  const int64_t rows = args.logits.rows(), vocabulary = args.logits.cols();
  PG_CHECK(rows == int64_t(args.rows.size()) && rows == int64_t(args.out.size()) &&
               int64_t(args.top_logprobs.size()) >= rows * args.max_logprobs,
           "{} rows of logits, {} of rules, {} out",
           rows,
           args.rows.size(),
           args.out.size());
  Scratch scratch(context);
  std::vector<RowScratch> per_thread(context.threads.size());
  for (RowScratch& own : per_thread)
    own = {scratch.take<float>(vocabulary), scratch.take<int32_t>(vocabulary)};
  for_rows(context, rows, [&](int64_t r, int thread) {
    args.out[r] = sample_row(context,
                             {args.logits.row<float>(r), size_t(vocabulary)},
                             args.rows[r],
                             args.top_logprobs.subspan(r * args.max_logprobs, args.max_logprobs),
                             per_thread[thread]);
  });
}

}  // namespace pagoda::cpu
