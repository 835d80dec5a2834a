#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "backend/reference_ops.h"

namespace pagoda::reference {
namespace {

std::vector<float> rounded(const std::vector<double>& values) {
  return {values.begin(), values.end()};
}

void rms_normalise(std::vector<double>& x, ConstTensorView weight, double epsilon) {
  if (weight.empty()) return;
  double squares = 0;
  for (double value : x) squares += value * value;
  const double scale = 1 / std::sqrt(squares / double(x.size()) + epsilon);
  for (size_t i = 0; i < x.size(); i++) x[i] *= scale * double(weight.as<float>()[i]);
}

// Su et al. 2021, eq. 34; `angles` [pairs, 2] {cos, sin}. Dims past 2 * pairs pass through.
void rotate(std::vector<double>& x, RopeStyle style, const float* angles, int64_t pairs) {
  if (style == RopeStyle::none) return;
  for (int64_t i = 0; i < pairs; i++) {
    const bool interleaved = style == RopeStyle::interleaved;
    double& a = x[interleaved ? 2 * i : i];
    double& b = x[interleaved ? 2 * i + 1 : i + pairs];
    const double cosine = angles[2 * i], sine = angles[2 * i + 1];
    const double rotated_a = a * cosine - b * sine;
    b = a * sine + b * cosine;
    a = rotated_a;
  }
}

// One query head of one row: scores over its keys, softmax, the weighted sum of values.
struct Row {
  std::vector<double> out;
  double log_sum_exp;
};

Row attend(const AttentionArgs& args, int64_t b, int64_t t, int64_t position, int32_t head) {
  const KvView& kv = args.kv;
  const int64_t block_size = kv.format.block_size;
  const int32_t kv_head = head / (args.num_heads / kv.kv_heads);
  const float* q = args.q.row<float>(t) + int64_t{head} * kv.format.k_dim;
  const int64_t first = args.window > 0 ? std::max<int64_t>(0, position - args.window + 1) : 0;

  std::vector<int64_t> slots;
  for (int64_t p = first; p <= position; p++)
    slots.push_back(args.batch.block_table[b * args.batch.max_blocks + p / block_size] *
                        block_size +
                    p % block_size);
  std::vector<double> scores;
  double largest = args.sinks.empty() ? -std::numeric_limits<double>::infinity()
                                      : double(args.sinks.as<float>()[head]);
  for (const int64_t slot : slots) {
    const std::vector<double> k = load_kv(kv, slot, kv_head, KvPart::k);
    double score = 0;
    for (size_t i = 0; i < k.size(); i++) score += double(q[i]) * k[i];
    score *= args.scale;
    if (args.softcap > 0) score = args.softcap * std::tanh(score / args.softcap);
    scores.push_back(score);
    largest = std::max(largest, score);
  }
  Row row{std::vector<double>(kv.format.v_dim), -std::numeric_limits<double>::infinity()};
  if (slots.empty()) return row;
  double sum = args.sinks.empty() ? 0 : std::exp(double(args.sinks.as<float>()[head]) - largest);
  for (size_t j = 0; j < slots.size(); j++) {
    const double weight = std::exp(scores[j] - largest);
    const std::vector<double> v = load_kv(kv, slots[j], kv_head, KvPart::v);
    for (size_t i = 0; i < v.size(); i++) row.out[i] += weight * v[i];
    sum += weight;
  }
  for (double& value : row.out) value /= sum;
  row.log_sum_exp = largest + std::log(sum);
  return row;
}

}  // namespace

void rope_store_kv(const RopeStoreKvArgs& args) {
  const int32_t k_dim = args.kv.format.k_dim, v_dim = args.kv.format.v_dim;
  const int64_t pairs = args.angles.empty() ? 0 : args.angles.dim(1);
  for (int64_t t = 0; t < args.q.rows(); t++) {
    const float* angles = pairs == 0 ? nullptr : args.angles.as<float>() + t * pairs * 2;
    for (int32_t h = 0; h < args.num_heads; h++) {
      float* q = args.q.row<float>(t) + int64_t{h} * k_dim;
      std::vector<double> x(q, q + k_dim);
      rms_normalise(x, args.q_norm, args.norm_epsilon);
      rotate(x, args.style, angles, pairs);
      std::transform(x.begin(), x.end(), q, [](double value) { return float(value); });
    }
    if (args.slots[t] < 0) continue;
    for (int32_t h = 0; h < args.kv.kv_heads; h++) {
      const float* k = args.k.row<float>(t) + int64_t{h} * k_dim;
      const float* v = args.v.row<float>(t) + int64_t{h} * v_dim;
      std::vector<double> x(k, k + k_dim);
      rms_normalise(x, args.k_norm, args.norm_epsilon);
      rotate(x, args.style, angles, pairs);
      store_kv(args.kv, args.slots[t], h, KvPart::k, rounded(x));
      store_kv(args.kv, args.slots[t], h, KvPart::v, {v, size_t(v_dim)});
    }
  }
}

void attention(const AttentionArgs& args) {
  const int64_t num_seqs = int64_t(args.batch.kv_lens.size());
  const int64_t v_dim = args.kv.format.v_dim;
  for (int64_t b = 0; b < num_seqs; b++) {
    const int64_t begin = args.batch.cu_q_lens[b], end = args.batch.cu_q_lens[b + 1];
    for (int64_t t = begin; t < end; t++)
      for (int32_t head = 0; head < args.num_heads; head++) {
        const Row row = attend(args, b, t, args.batch.kv_lens[b] - (end - t), head);
        std::transform(row.out.begin(),
                       row.out.end(),
                       args.out.row<float>(t) + head * v_dim,
                       [](double value) { return float(value); });
        if (!args.log_sum_exp.empty())
          args.log_sum_exp.row<float>(t)[head] = float(row.log_sum_exp);
      }
  }
}

}  // namespace pagoda::reference
