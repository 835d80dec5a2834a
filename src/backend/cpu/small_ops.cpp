#include "backend/cpu/small_ops.h"

#include <cmath>
#include <cstring>

#include "backend/cpu/linear.h"

namespace pagoda::cpu {
namespace {

constexpr int64_t kElementsWorthThreads = 1 << 14;  // waking the pool costs a few microseconds

// job(row, thread) for each row, over the threads where there is enough to do. One job serves all
// threads: it must not change what it captures.
template <typename Job>
void for_rows(Context& context, int64_t rows, int64_t elements_per_row, const Job& job) {
  if (rows * elements_per_row < kElementsWorthThreads) {
    for (int64_t row = 0; row < rows; row++) job(row, 0);
    return;
  }
  context.threads.run([&](int thread) {
    const Range range = share(rows, thread, context.threads.size());
    for (int64_t row = range.begin; row < range.end; row++) job(row, thread);
  });
}

const float* floats(ConstTensorView vector) {
  return vector.empty() ? nullptr : vector.as<float>();
}

void check_f32(ConstTensorView x, int64_t rows, int64_t cols, std::string_view what) {
  PG_CHECK(x.dtype() == DType::f32 && x.rows() == rows && x.cols() == cols,
           "{}: {} [{}, {}], wanted f32 [{}, {}]",
           what,
           name(x.dtype()),
           x.rows(),
           x.cols(),
           rows,
           cols);
}

void check_index(int64_t index, int64_t size, std::string_view what) {
  PG_CHECK(index >= 0 && index < size, "{} {} of {}", what, index, size);
}

}  // namespace

int64_t embed_scratch_bytes(const WorkspaceShape& shape, int num_threads) {
  return num_threads * Scratch::bytes_for(shape.max_cols * int64_t{sizeof(float)});
}

void embed(Context& context, const EmbedArgs& args) {
  const int64_t rows = int64_t(args.ids.size()), cols = args.table.cols;
  check_f32(args.out, rows, cols, "embed");
  Scratch scratch(context);
  std::vector<float*> position_rows(context.threads.size());
  if (args.positions)
    for (float*& row : position_rows) row = scratch.take<float>(cols);
  for_rows(context, rows, cols, [&](int64_t t, int thread) {
    float* out = args.out.row<float>(t);
    check_index(args.ids[t], args.table.rows, "token");
    unpack_row(context, args.table, args.ids[t], out);
    if (args.scale != 1.f) context.kernels.row.scale(out, args.scale, cols);
    if (!args.positions) return;
    check_index(args.position_ids[t], args.positions->rows, "position");
    unpack_row(context, *args.positions, args.position_ids[t], position_rows[thread]);
    context.kernels.row.add(out, position_rows[thread], cols);
  });
}

void norm(Context& context, const NormArgs& args) {
  const int64_t rows = args.x.rows(), cols = args.x.cols();
  check_f32(args.x, rows, cols, "norm");
  if (!args.add.empty()) check_f32(args.add, rows, cols, "norm, add");
  if (!args.out.empty()) check_f32(args.out, rows, cols, "norm, out");
  for_rows(context, rows, cols, [&](int64_t t, int) {
    float* x = args.x.row<float>(t);
    NormRow row{.x = x,
                .weight = floats(args.weight),
                .bias = floats(args.bias),
                .out = args.out.empty() ? nullptr : args.out.row<float>(t),
                .n = cols,
                .epsilon = args.epsilon,
                .subtract_mean = args.kind == NormKind::layer,
                .add_to_out = false};
    if (!args.add.empty() && args.post_norm.empty())
      context.kernels.row.add(x, args.add.row<float>(t), cols);
    if (!args.add.empty() && !args.post_norm.empty()) {
      NormRow post = row;
      post.x = args.add.row<float>(t);
      post.weight = floats(args.post_norm);
      post.bias = nullptr;
      post.out = x;
      post.add_to_out = true;
      context.kernels.row.norm(post);
    }
    if (row.out) context.kernels.row.norm(row);
  });
}

void activation(Context& context, const ActivationArgs& args) {
  const int64_t rows = args.out.rows(), cols = args.out.cols();
  const bool gated = args.x.cols() == 2 * cols;
  check_f32(args.x, rows, gated ? 2 * cols : cols, "activation");
  check_f32(args.out, rows, cols, "activation, out");
  for_rows(context, rows, cols, [&](int64_t t, int) {
    const float* x = args.x.row<float>(t);
    context.kernels.row.activation(
        int(args.function), x, gated ? x + cols : nullptr, args.out.row<float>(t), cols);
  });
}

// In f64, so that far positions keep their angle: there are few of these a step.
void rope_angles(Context& context, const RopeAnglesArgs& args) {
  const int64_t rows = int64_t(args.positions.size()), pairs = int64_t(args.inv_freq.size());
  check_f32(args.out, rows * pairs, 2, "rope_angles");
  for_rows(context, rows, pairs * 64, [&](int64_t t, int) {
    float* out = args.out.as<float>() + t * pairs * 2;
    for (int64_t i = 0; i < pairs; i++) {
      const double angle = double(args.positions[t]) * double(args.inv_freq[i]);
      out[2 * i] = float(std::cos(angle) * double(args.magnitude));
      out[2 * i + 1] = float(std::sin(angle) * double(args.magnitude));
    }
  });
}

void gather_rows(Context&, const GatherRowsArgs& args) {
  check_f32(args.out, int64_t(args.rows.size()), args.x.cols(), "gather_rows");
  for (size_t i = 0; i < args.rows.size(); i++) {
    check_index(args.rows[i], args.x.rows(), "row");
    std::memcpy(args.out.row<float>(i), args.x.row<float>(args.rows[i]), args.x.cols() * 4);
  }
}

void copy_blocks(std::span<const KvView> layers, std::span<const BlockCopy> copies) {
  for (const KvView& kv : layers)
    for (const BlockCopy& copy : copies) {
      check_index(copy.from, kv.num_blocks, "copy from block");
      check_index(copy.to, kv.num_blocks, "copy to block");
      std::memmove(kv.head(copy.to, 0), kv.head(copy.from, 0), kv.block_bytes());
    }
}

void zero_blocks(std::span<const KvView> layers, std::span<const int32_t> blocks) {
  for (const KvView& kv : layers)
    for (const int32_t block : blocks) {
      check_index(block, kv.num_blocks, "block");
      std::memset(kv.head(block, 0), 0, kv.block_bytes());
    }
}

}  // namespace pagoda::cpu
