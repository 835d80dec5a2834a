// AttentionFixture: for tests, one layer's cache of a CPU backend, filled with random tokens, and
// calls of attention over it, cut in any way. Blocks are handed out in random order.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <vector>

#include "backend/cpu/cpu_backend.h"

namespace pagoda::cpu {

struct AttentionShape {
  KvDType dtype = KvDType::bf16;
  int32_t dim = 64;
  int32_t kv_heads = 2;
  int32_t group = 3;
  int32_t block_size = 16;
  int32_t window = 0;
  float softcap = 0.f;
  bool has_sinks = false;
  float q_size = 1.f;
  AttentionAlgorithm algorithm = AttentionAlgorithm::flash;
};

// New tokens [begin, end) of sequence `id`, all of its earlier ones being stored.
struct Piece {
  int32_t id;
  int32_t begin;
  int32_t end;
};

class AttentionFixture {
 public:
  AttentionFixture(IsaLevel isa,
                   int num_threads,
                   const AttentionShape& shape,
                   std::vector<int32_t> lengths,
                   unsigned block_seed = 1);

  int32_t heads() const { return shape.kv_heads * shape.group; }
  int64_t kv_cols() const { return int64_t{shape.kv_heads} * shape.dim; }
  int64_t slot(int32_t id, int32_t position) const {
    return int64_t{tables[id * max_blocks + position / shape.block_size]} * shape.block_size +
           position % shape.block_size;
  }

  void store(int32_t id) { store({id, 0, lengths[id]}); }
  void store(Piece piece);

  // One call; results land in out and lse.
  void attend(const std::vector<Piece>& pieces);

  // Sequence `id` in calls of `step` tokens.
  void attend_in_steps(int32_t id, int32_t step) {
    for (int32_t t = 0; t < lengths[id]; t += step)
      attend({{id, t, std::min(lengths[id], t + step)}});
  }

  float scale() const { return 1.f / std::sqrt(static_cast<float>(shape.dim)); }

  // In float64 over the stored values: the row's output [D] and its log-sum-exp.
  struct Expected {
    std::vector<double> out;
    double log_sum_exp;
  };
  Expected expected(int32_t id, int32_t position, int32_t head) const;

  // |out - expected| / |expected| of one row and head.
  double error(int32_t id, int32_t position, int32_t head) const;

  AttentionShape shape;
  std::vector<int32_t> lengths;
  std::unique_ptr<Backend> backend;
  KvView kv;
  int32_t max_blocks = 0;
  std::vector<int32_t> tables;                        // [B, max_blocks]
  std::vector<std::vector<float>> q, k, v, out, lse;  // by sequence
  std::vector<float> sinks;

 private:
  static std::vector<float> normal(int64_t count, unsigned seed, float size);
  static TensorView view(std::vector<float>& x, int64_t rows) {
    return {reinterpret_cast<std::byte*>(x.data()),
            DType::f32,
            {rows, rows ? static_cast<int64_t>(x.size()) / rows : static_cast<int64_t>(x.size())}};
  }
  static ConstTensorView rows(std::vector<float>& x, int64_t begin, int64_t count, int64_t cols) {
    return {reinterpret_cast<const std::byte*>(x.data() + begin * cols), DType::f32, {count, cols}};
  }

  // What read_kv gives for every token of a sequence.
  struct Stored {
    std::vector<float> k, v;  // [tokens, KH * D]
  };
  const Stored& stored_tokens(int32_t id) const;

  void make_blocks(int32_t longest, unsigned seed);

  // Entries that a window has left behind, or past the end, are never read: they lead nowhere.
  void hide_unseen(const std::vector<Piece>& pieces, std::vector<int32_t>& table) const;

  mutable std::vector<Stored> stored_;
  Buffer memory_;  // after backend: its allocator outlives it
};

}  // namespace pagoda::cpu
