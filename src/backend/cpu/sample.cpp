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
// out. Candidates are collected in bands below the peak, whose weights are summed before, and
// mostly instead of, being sorted.
class Ranking {
 public:
  struct Band {
    int64_t begin, end;  // ranks
    int64_t sorted_end;
    double sum;           // of its weights
    float lowest_weight;  // none of its weights is (much) below
  };
  // A logit `unit` below the peak is e times less likely. `ids` has room for the row; `weights` may
  // be null where no sums are asked for.
  Ranking(const SampleKernels& kernels,
          std::span<const float> logits,
          float peak,
          float unit,
          const float* weights,
          int32_t* ids)
      : kernels_(kernels), logits_(logits), peak_(peak), unit_(unit), weights_(weights), ids_(ids) {
    bands_.reserve(kNumBands);
  }

  bool has_band(int64_t band) {
    while (band >= int64_t(bands_.size()) && next_band_ < kNumBands) collect_band();
    return band < int64_t(bands_.size());
  }
  const Band& band(int64_t index) const { return bands_[index]; }
  // The token of `rank`, which lies in `band`.
  int32_t at(int64_t index, int64_t rank) {
    Band& band = bands_[index];
    while (rank >= band.sorted_end) sort_more(band);
    return ids_[rank];
  }

 private:
  // Distances from the peak: 4 units hold most of the weight in few tokens; then steps of a half.
  static constexpr int kNumBands = 42;
  static float band_end(int band) {
    return band == kNumBands - 1 ? kInfinity : 4.f + 0.5f * float(band);
  }

  void collect_band() {
    const float end = band_end(next_band_++);
    const float low = std::max(peak_ - end * unit_, -FLT_MAX);
    if (low >= high_) return;
    const int64_t begin = bands_.empty() ? 0 : bands_.back().end;
    const int64_t count =
        kernels_.collect(logits_.data(), int64_t(logits_.size()), low, high_, ids_ + begin);
    high_ = low;
    if (count == 0) return;
    double sum = 0;
    if (weights_)
      for (int64_t i = begin; i < begin + count; i++) sum += double(weights_[ids_[i]]);
    bands_.push_back({begin, begin + count, begin, sum, std::exp(-end) * 0.99f});
  }
  void sort_more(Band& band) {
    const auto before = [this](int32_t a, int32_t b) {
      return logits_[a] > logits_[b] || (logits_[a] == logits_[b] && a < b);
    };
    const int64_t sorted = band.sorted_end - band.begin;
    const int64_t end = std::min(band.end, band.begin + std::max<int64_t>(64, 4 * sorted));
    int32_t* from = ids_ + band.sorted_end;
    if (end < band.end) std::nth_element(from, ids_ + end, ids_ + band.end, before);
    std::sort(from, ids_ + end, before);
    band.sorted_end = end;
  }

  const SampleKernels& kernels_;
  std::span<const float> logits_;
  float peak_, unit_;
  const float* weights_;
  int32_t* ids_;
  std::vector<Band> bands_;
  int next_band_ = 0;
  float high_ = kInfinity;
};

// The first tokens of a ranking.
struct Prefix {
  int64_t count = 0;
  double sum = 0;  // of their weights
  int32_t last = -1;
};

struct PrefixEnd {
  int64_t most = std::numeric_limits<int64_t>::max();  // tokens
  double sum = double(kInfinity);                      // the fewest tokens that reach it
  float lowest_weight = 0;
};

// At least one token. Bands that lie wholly within are added as they are.
Prefix prefix(Ranking& ranking, const float* weights, const PrefixEnd& end) {
  Prefix p;
  for (int64_t b = 0; ranking.has_band(b); b++) {
    const Ranking::Band& band = ranking.band(b);
    if (band.end <= end.most && p.sum + band.sum < end.sum &&
        band.lowest_weight >= end.lowest_weight) {
      p.count = band.end;
      p.sum += band.sum;
      continue;
    }
    while (p.count < band.end) {
      const int32_t token = ranking.at(b, p.count);
      if (p.count > 0 &&
          (p.count >= end.most || p.sum >= end.sum || weights[token] < end.lowest_weight))
        return p;
      p.sum += double(weights[token]);
      p.last = token;
      p.count++;
    }
  }
  return p;
}

// Top-k, top-p (Holtzman et al. 2020) and min-p, then the draw. `total`: of all weights.
int32_t draw(Ranking& ranking, const float* weights, const SampleRow& row, double total) {
  PrefixEnd end;
  Prefix kept{.count = end.most, .sum = total};
  if (row.top_k > 0) {
    end.most = row.top_k;
    kept = prefix(ranking, weights, end);
  }
  if (row.top_p < 1.f || row.min_p > 0.f) {
    if (row.top_p < 1.f) end.sum = double(row.top_p) * kept.sum;
    end.lowest_weight = row.min_p;
    kept = prefix(ranking, weights, end);
  }
  const double passed = uniform_draw(row.seed, row.choice, row.position) * kept.sum;
  const Prefix drawn = prefix(
      ranking, weights, {.most = kept.count, .sum = std::nextafter(passed, double(kInfinity))});
  if (drawn.last >= 0) return drawn.last;
  // The sum, added up in another order, fell short of `passed` by its rounding.
  return ranking.has_band(0) ? ranking.at(0, 0) : -1;
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
  Ranking ranking(kernels,
                  logits,
                  peak.value,
                  greedy ? 1.f : row.temperature,
                  greedy ? nullptr : scratch.weights,
                  scratch.ids);
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
  for (int64_t band = 0, rank = 0; rank < wanted && ranking.has_band(band); band++)
    for (; rank < std::min(wanted, ranking.band(band).end); rank++) {
      const int32_t token = ranking.at(band, rank);
      top[rank] = {token, float(double(logits[token]) - normaliser)};
    }
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
