#include "backend/cpu/attention_fixture.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <utility>

namespace pagoda::cpu {

AttentionFixture::AttentionFixture(IsaLevel isa,
                                   int num_threads,
                                   const AttentionShape& shape,
                                   std::vector<int32_t> lengths,
                                   unsigned block_seed)
    : shape(shape), lengths(std::move(lengths)) {
  backend = make_cpu_backend({.num_threads = num_threads, .isa = isa});
  const int32_t longest = *std::max_element(this->lengths.begin(), this->lengths.end());
  const int32_t total = std::accumulate(this->lengths.begin(), this->lengths.end(), 0);
  backend->reserve_workspace({.max_tokens = total,
                              .max_seqs = static_cast<int32_t>(this->lengths.size()),
                              .max_context = longest,
                              .num_heads = heads(),
                              .kv_heads = shape.kv_heads,
                              .head_dim = shape.dim});
  make_blocks(longest, block_seed);
  for (size_t i = 0; i < this->lengths.size(); i++) {
    const auto seed = static_cast<unsigned>(100 + i);
    q.push_back(normal(int64_t{this->lengths[i]} * heads() * shape.dim, seed, shape.q_size));
    k.push_back(normal(int64_t{this->lengths[i]} * kv_cols(), seed + 1000, 1.f));
    v.push_back(normal(int64_t{this->lengths[i]} * kv_cols(), seed + 2000, 1.f));
    out.emplace_back(q.back().size(), NAN);
    lse.emplace_back(int64_t{this->lengths[i]} * heads(), NAN);
  }
  sinks = normal(heads(), 7, 1.f);
}

void AttentionFixture::store(Piece piece) {
  stored_.assign(lengths.size(), {});
  const int64_t count = piece.end - piece.begin;
  std::vector<int32_t> slots;
  for (int32_t p = piece.begin; p < piece.end; p++)
    slots.push_back(static_cast<int32_t>(slot(piece.id, p)));
  std::vector<float> scratch_q(count * heads() * shape.dim);
  backend->rope_store_kv({.q = view(scratch_q, count),
                          .k = rows(k[piece.id], piece.begin, count, kv_cols()),
                          .v = rows(v[piece.id], piece.begin, count, kv_cols()),
                          .num_heads = heads(),
                          .style = RopeStyle::none,
                          .slots = slots,
                          .kv = kv});
}

void AttentionFixture::attend(const std::vector<Piece>& pieces) {
  const int64_t row_floats = int64_t{heads()} * shape.dim;
  std::vector<int32_t> bounds{0}, kv_lens, table;
  std::vector<float> in;
  for (const Piece& p : pieces) {
    bounds.push_back(bounds.back() + p.end - p.begin);
    kv_lens.push_back(p.end);
    const auto* begin = tables.data() + p.id * max_blocks;
    table.insert(table.end(), begin, begin + max_blocks);
    in.insert(in.end(), q[p.id].data() + p.begin * row_floats, q[p.id].data() + p.end * row_floats);
  }
  const int64_t count = bounds.back();
  in.resize(std::max<int64_t>(1, count) * row_floats);
  std::vector<float> result(in.size(), NAN), sums(std::max<int64_t>(1, count) * heads(), NAN);
  hide_unseen(pieces, table);
  const AttentionBatch batch{.cu_q_lens = bounds,
                             .kv_lens = kv_lens,
                             .block_table = table,
                             .max_blocks = max_blocks,
                             .host_cu_q_lens = bounds,
                             .host_kv_lens = kv_lens};
  backend->attention({.q = view(in, in.size() / row_floats),
                      .kv = kv,
                      .batch = batch,
                      .num_heads = heads(),
                      .scale = scale(),
                      .window = shape.window,
                      .softcap = shape.softcap,
                      .sinks = shape.has_sinks ? view(sinks, 1) : ConstTensorView(),
                      .algorithm = shape.algorithm,
                      .out = view(result, in.size() / row_floats),
                      .log_sum_exp = view(sums, in.size() / row_floats)});
  for (size_t i = 0; i < pieces.size(); i++) {
    const Piece& p = pieces[i];
    std::copy_n(result.data() + bounds[i] * row_floats,
                (p.end - p.begin) * row_floats,
                out[p.id].data() + p.begin * row_floats);
    std::copy_n(sums.data() + bounds[i] * heads(),
                (p.end - p.begin) * heads(),
                lse[p.id].data() + p.begin * heads());
  }
}

AttentionFixture::Expected AttentionFixture::expected(int32_t id,
                                                      int32_t position,
                                                      int32_t head) const {
  const int32_t h = head / shape.group, dim = shape.dim;
  const float* query = q[id].data() + (int64_t{position} * heads() + head) * dim;
  const int32_t first = shape.window > 0 ? std::max(0, position + 1 - shape.window) : 0;
  const Stored& stored = stored_tokens(id);
  std::vector<double> scores;
  double top = shape.has_sinks ? sinks[head] : -INFINITY;
  for (int32_t p = first; p <= position; p++) {
    const float* kr = stored.k.data() + p * kv_cols() + h * dim;
    double s = 0;
    for (int32_t d = 0; d < dim; d++) s += double(query[d]) * kr[d];
    s *= scale();
    if (shape.softcap > 0) s = shape.softcap * std::tanh(s / shape.softcap);
    scores.push_back(s);
    top = std::max(top, s);
  }
  double sum = shape.has_sinks ? std::exp(sinks[head] - top) : 0;
  Expected row{std::vector<double>(dim), 0};
  for (int32_t p = first; p <= position; p++) {
    const float* vr = stored.v.data() + p * kv_cols() + h * dim;
    const double weight = std::exp(scores[p - first] - top);
    sum += weight;
    for (int32_t d = 0; d < dim; d++) row.out[d] += weight * vr[d];
  }
  for (double& x : row.out) x /= sum;
  row.log_sum_exp = top + std::log(sum);
  return row;
}

double AttentionFixture::error(int32_t id, int32_t position, int32_t head) const {
  const Expected want = expected(id, position, head);
  const float* got = out[id].data() + (int64_t{position} * heads() + head) * shape.dim;
  double difference = 0, size = 0;
  for (int32_t d = 0; d < shape.dim; d++) {
    difference += (got[d] - want.out[d]) * (got[d] - want.out[d]);
    size += want.out[d] * want.out[d];
  }
  return std::sqrt(difference / size);
}

std::vector<float> AttentionFixture::normal(int64_t count, unsigned seed, float size) {
  std::mt19937 random(seed);
  std::normal_distribution<float> distribution(0.f, size);
  std::vector<float> x(count);
  for (float& value : x) value = distribution(random);
  return x;
}

const AttentionFixture::Stored& AttentionFixture::stored_tokens(int32_t id) const {
  Stored& stored = stored_[id];
  if (!stored.k.empty()) return stored;
  stored.k.resize(lengths[id] * kv_cols());
  stored.v.resize(stored.k.size());
  const auto cols = static_cast<size_t>(kv_cols());
  for (int32_t p = 0; p < lengths[id]; p++)
    backend->read_kv(kv,
                     slot(id, p),
                     std::span(stored.k).subspan(p * cols, cols),
                     std::span(stored.v).subspan(p * cols, cols));
  return stored;
}

void AttentionFixture::make_blocks(int32_t longest, unsigned seed) {
  max_blocks = (longest + shape.block_size - 1) / shape.block_size;
  const auto sequences = static_cast<int32_t>(lengths.size());
  tables.resize(int64_t{sequences} * max_blocks);
  std::iota(tables.begin(), tables.end(), 1);
  std::shuffle(tables.begin(), tables.end(), std::mt19937(seed));
  kv.format = {
      .dtype = shape.dtype, .block_size = shape.block_size, .k_dim = shape.dim, .v_dim = shape.dim};
  kv.kv_heads = shape.kv_heads;
  kv.num_blocks = static_cast<int64_t>(tables.size()) + 1;
  memory_ = backend->allocator().allocate(kv.num_blocks * kv.block_bytes(), MemoryTag::kv);
  kv.base = memory_.data();
}

void AttentionFixture::hide_unseen(const std::vector<Piece>& pieces,
                                   std::vector<int32_t>& table) const {
  for (size_t i = 0; i < pieces.size(); i++) {
    const int32_t first = shape.window > 0 ? std::max(0, pieces[i].begin + 1 - shape.window) : 0;
    for (int32_t block = 0; block < max_blocks; block++)
      if (block < first / shape.block_size || block * shape.block_size >= pieces[i].end)
        table[i * max_blocks + block] = 1 << 30;
  }
}

}  // namespace pagoda::cpu
