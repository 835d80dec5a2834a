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

// K and V of one sequence and KV head, positions first … first + k.size() - 1.
struct Keys {
  int64_t first;
  std::vector<std::vector<double>> k, v;
};

int64_t first_key(const AttentionArgs& args, int64_t position) {
  return args.window > 0 ? std::max<int64_t>(0, position - args.window + 1) : 0;
}

Keys load_keys(const AttentionArgs& args, int64_t b, int64_t first, int32_t kv_head) {
  const int64_t block_size = args.kv.format.block_size;
  const int32_t* table = args.batch.block_table.data() + b * args.batch.max_blocks;
  Keys keys{first, {}, {}};
  for (int64_t p = first; p < args.batch.kv_lens[b]; p++) {
    const int64_t slot = table[p / block_size] * block_size + p % block_size;
    keys.k.push_back(load_kv(args.kv, slot, kv_head, KvPart::k));
    keys.v.push_back(load_kv(args.kv, slot, kv_head, KvPart::v));
  }
  return keys;
}

// One query head of one row: scores over its keys, softmax, the weighted sum of values.
struct Row {
  std::vector<double> out;
  double log_sum_exp;
};

Row attend(const AttentionArgs& args, const Keys& keys, int64_t t, int64_t position, int32_t head) {
  const float* q = args.q.row<float>(t) + int64_t{head} * args.kv.format.k_dim;
  Row row{std::vector<double>(args.kv.format.v_dim), -std::numeric_limits<double>::infinity()};
  if (position < 0) return row;
  const double sink = args.sinks.empty() ? -std::numeric_limits<double>::infinity()
                                         : double(args.sinks.as<float>()[head]);
  std::vector<double> scores;
  double largest = sink;
  for (int64_t p = first_key(args, position); p <= position; p++) {
    const std::vector<double>& k = keys.k[p - keys.first];
    double score = 0;
    for (size_t i = 0; i < k.size(); i++) score += double(q[i]) * k[i];
    score *= args.scale;
    if (args.softcap > 0) score = args.softcap * std::tanh(score / args.softcap);
    scores.push_back(score);
    largest = std::max(largest, score);
  }
  double sum = std::exp(sink - largest);
  for (size_t j = 0; j < scores.size(); j++) {
    const double weight = std::exp(scores[j] - largest);
    const std::vector<double>& v = keys.v[first_key(args, position) - keys.first + j];
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
  const int64_t v_dim = args.kv.format.v_dim;
  const int32_t group = args.num_heads / args.kv.kv_heads;
  for (size_t b = 0; b < args.batch.kv_lens.size(); b++) {
    const int64_t begin = args.batch.cu_q_lens[b], end = args.batch.cu_q_lens[b + 1];
    if (begin == end) continue;
    const int64_t first_position = args.batch.kv_lens[b] - (end - begin);
    const int64_t first = first_key(args, std::max<int64_t>(0, first_position));
    for (int32_t kv_head = 0; kv_head < args.kv.kv_heads; kv_head++) {
      const Keys keys = load_keys(args, b, first, kv_head);
      for (int64_t t = begin; t < end; t++)
        for (int32_t head = kv_head * group; head < (kv_head + 1) * group; head++) {
          const Row row = attend(args, keys, t, first_position + t - begin, head);
          float* out = args.out.row<float>(t) + head * v_dim;
          std::copy(row.out.begin(), row.out.end(), out);
          if (!args.log_sum_exp.empty())
            args.log_sum_exp.row<float>(t)[head] = float(row.log_sum_exp);
        }
    }
  }
}

}  // namespace pagoda::reference
