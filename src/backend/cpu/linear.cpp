#include "backend/cpu/linear.h"

#include <algorithm>

namespace pagoda::cpu {
namespace {

constexpr int64_t kFewTokens = 4;            // each thread rounds the rows itself
constexpr int64_t kMemoryBoundTokens = 8;    // below, a panel costs its bytes; else its columns
constexpr int64_t kChunkBytes = 384 * 1024;  // of rounded rows, to stay in a second-level cache

enum class Rows : uint8_t { f32, bf16, blocks };

Rows rows_for(const LinearKernels& kernels, DType dtype) {
  if (is_quantised(dtype)) return Rows::blocks;
  return dtype == DType::bf16 && kernels.bf16_rows ? Rows::bf16 : Rows::f32;
}

int64_t row_bytes(Rows rows, int64_t cols) {
  return rows == Rows::blocks ? ceil_div(cols, kBlockCols) * int64_t{sizeof(ActivationBlock)}
                              : round_up(cols, 2) * int64_t{sizeof(uint16_t)};
}

// The batch's rows as one type of weight reads them.
struct RoundedRows {
  const uint8_t* data = nullptr;
  int64_t row_bytes = 0;
};

// One call of linear: what all its threads share.
class Product {
 public:
  Product(Context& context, const LinearArgs& args);
  void run();

 private:
  void check() const;
  // Rounds rows [begin, end) of x into `copy` of the scratch rows.
  void round_rows(int64_t begin, int64_t end, int copy);
  RoundedRows rows_of(DType dtype, int copy) const;
  // This thread's share of (chunk of tokens, weight, panel), in that order.
  void multiply_share(int thread, int copy);
  void multiply_chunk(Range tokens, int64_t begin, int64_t end, int copy);
  int64_t panel_cost(const Weight& weight) const;

  Context& context_;
  const LinearArgs& args_;
  const LinearKernels& kernels_;
  int64_t tokens_, cols_;
  bool few_;
  bool wants_[3] = {};  // by Rows
  uint8_t* scratch_[3] = {};
  int64_t chunks_ = 1;
  int64_t chunk_cost_ = 0;  // of all panels
};

Product::Product(Context& context, const LinearArgs& args)
    : context_(context),
      args_(args),
      kernels_(context.kernels.linear),
      tokens_(args.x.rows()),
      cols_(args.x.cols()),
      few_(tokens_ <= kFewTokens) {
  check();
  for (const Weight* w : args.weights) wants_[int(rows_for(kernels_, w->dtype))] = true;
  Scratch scratch(context);
  const int64_t copies = few_ ? context.threads.size() : 1;
  int64_t widest = wants_[int(Rows::f32)] ? args.x.row_bytes() : 0;
  for (Rows kind : {Rows::bf16, Rows::blocks}) {
    if (!wants_[int(kind)]) continue;
    const int64_t bytes = row_bytes(kind, cols_);
    scratch_[int(kind)] = scratch.take<uint8_t>(copies * tokens_ * bytes);
    widest = std::max(widest, bytes);
  }
  chunks_ = std::max<int64_t>(1, ceil_div(tokens_ * widest, kChunkBytes));
  for (const Weight* w : args.weights)
    chunk_cost_ += ceil_div(w->rows, kPanelRows) * panel_cost(*w);
}

void Product::check() const {
  int64_t rows = 0;
  for (const Weight* w : args_.weights) {
    PG_CHECK(w->cols == cols_, "weight of {} columns, x of {}", w->cols, cols_);
    PG_CHECK(kernels_.multiply[int(w->dtype)] != nullptr, "linear with {}", name(w->dtype));
    rows += w->rows;
  }
  PG_CHECK(args_.x.dtype() == DType::f32 && args_.out.dtype() == DType::f32, "f32 rows");
  PG_CHECK(args_.out.cols() == rows && args_.out.rows() == tokens_,
           "out [{}, {}] of [{}, {}]",
           args_.out.rows(),
           args_.out.cols(),
           tokens_,
           rows);
  PG_CHECK(args_.bias.empty() || args_.bias.num_elements() == rows, "bias of {}", rows);
  PG_CHECK(
      args_.residual.empty() || (args_.residual.cols() == rows && args_.residual.rows() == tokens_),
      "residual [{}, {}]",
      args_.residual.rows(),
      args_.residual.cols());
}

// One unit for each 16 rows by 32 columns where arithmetic is the limit, so that types count alike.
int64_t Product::panel_cost(const Weight& w) const {
  return tokens_ < kMemoryBoundTokens ? panel_layout(w.dtype, cols_).panel_bytes : 1;
}

void Product::round_rows(int64_t begin, int64_t end, int copy) {
  const int64_t block_bytes = row_bytes(Rows::blocks, cols_);
  const int64_t bf16_bytes = row_bytes(Rows::bf16, cols_);
  for (int64_t t = begin; t < end; t++) {
    const float* x = args_.x.row<float>(t);
    const int64_t slot = copy * tokens_ + t;
    if (uint8_t* to = scratch_[int(Rows::blocks)])
      kernels_.quantise_row(x, cols_, reinterpret_cast<ActivationBlock*>(to + slot * block_bytes));
    if (uint8_t* to = scratch_[int(Rows::bf16)])
      kernels_.round_row(x, cols_, reinterpret_cast<uint16_t*>(to + slot * bf16_bytes));
  }
}

RoundedRows Product::rows_of(DType dtype, int copy) const {
  const Rows kind = rows_for(kernels_, dtype);
  if (kind == Rows::f32)
    return {reinterpret_cast<const uint8_t*>(args_.x.data()), args_.x.row_bytes()};
  const int64_t bytes = row_bytes(kind, cols_);
  return {scratch_[int(kind)] + copy * tokens_ * bytes, bytes};
}

void Product::multiply_share(int thread, int copy) {
  const Range mine = share(chunks_ * chunk_cost_, thread, context_.threads.size());
  for (int64_t c = 0; c < chunks_; c++) {
    const int64_t begin = std::max<int64_t>(mine.begin - c * chunk_cost_, 0);
    const int64_t end = std::min(mine.end - c * chunk_cost_, chunk_cost_);
    if (begin < end)
      multiply_chunk({tokens_ * c / chunks_, tokens_ * (c + 1) / chunks_}, begin, end, copy);
  }
}

// Costs [begin, end) of one chunk; a unit of panels belongs to the range that its first cost is in.
void Product::multiply_chunk(Range tokens, int64_t begin, int64_t end, int copy) {
  int64_t cost_before = 0, column = 0;
  for (const Weight* w : args_.weights) {
    const int64_t panels = ceil_div(w->rows, kPanelRows),
                  units = ceil_div(panels, kernels_.unit_panels);
    const int64_t unit_cost = kernels_.unit_panels * panel_cost(*w);
    const auto first_unit_from = [&](int64_t cost) {
      return std::clamp<int64_t>(
          ceil_div(std::max<int64_t>(cost - cost_before, 0), unit_cost), 0, units);
    };
    const int64_t first = first_unit_from(begin), past = first_unit_from(end);
    if (first < past) {
      const PanelLayout layout = panel_layout(w->dtype, cols_);
      const int64_t panel = first * kernels_.unit_panels, row = panel * kPanelRows;
      const int64_t end_row = std::min(w->rows, past * kernels_.unit_panels * kPanelRows);
      const RoundedRows x = rows_of(w->dtype, copy);
      const bool residual = !args_.residual.empty();
      kernels_.multiply[int(w->dtype)]({
          .panels = w->data.as<const uint8_t>() + panel * layout.panel_bytes,
          .layout = layout,
          .num_rows = end_row - row,
          .cols = cols_,
          .x = x.data + tokens.begin * x.row_bytes,
          .x_row_bytes = x.row_bytes,
          .num_tokens = tokens.end - tokens.begin,
          .out = args_.out.row<float>(tokens.begin) + column + row,
          .out_stride = args_.out.row_bytes() / int64_t{sizeof(float)},
          .bias = args_.bias.empty() ? nullptr : args_.bias.as<float>() + column + row,
          .residual = residual ? args_.residual.row<float>(tokens.begin) + column + row : nullptr,
          .residual_stride = residual ? args_.residual.row_bytes() / int64_t{sizeof(float)} : 0,
          .scale = args_.scale,
          .softcap = args_.softcap,
      });
    }
    cost_before += panels * panel_cost(*w);
    column += w->rows;
  }
}

void Product::run() {
  ThreadPool& threads = context_.threads;
  if (tokens_ == 0 || chunk_cost_ == 0) return;
  if (few_) {
    threads.run([&](int thread) {
      round_rows(0, tokens_, thread);
      multiply_share(thread, thread);
    });
    return;
  }
  if (wants_[int(Rows::blocks)] || wants_[int(Rows::bf16)])
    threads.run([&](int thread) {
      const Range mine = share(tokens_, thread, threads.size());
      round_rows(mine.begin, mine.end, 0);
    });
  threads.run([&](int thread) { multiply_share(thread, 0); });
}

}  // namespace

LinearKernels linear_kernels(IsaLevel level) {
  const auto fill = [&](auto rows, auto blocks, auto floats) {
    LinearKernels kernels;
    rows(kernels);
    blocks(kernels);
    floats(kernels);
    return kernels;
  };
  switch (level) {
    case IsaLevel::v3:
      return fill(v3::fill_linear_rows, v3::fill_linear_blocks, v3::fill_linear_floats);
    case IsaLevel::v3_avxvnni:
      return fill(v3_avxvnni::fill_linear_rows,
                  v3_avxvnni::fill_linear_blocks,
                  v3_avxvnni::fill_linear_floats);
    case IsaLevel::v4:
      return fill(v4::fill_linear_rows, v4::fill_linear_blocks, v4::fill_linear_floats);
    case IsaLevel::v4_vnni:
      return fill(
          v4_vnni::fill_linear_rows, v4_vnni::fill_linear_blocks, v4_vnni::fill_linear_floats);
    default:
      return fill(
          v4_bf16::fill_linear_rows, v4_bf16::fill_linear_blocks, v4_bf16::fill_linear_floats);
  }
}

int64_t linear_scratch_bytes(const WorkspaceShape& shape, int num_threads) {
  const int64_t rows =
      std::max<int64_t>({shape.max_tokens, shape.max_logit_rows, kFewTokens * num_threads});
  return Scratch::bytes_for(rows * row_bytes(Rows::blocks, shape.max_cols)) +
         Scratch::bytes_for(rows * row_bytes(Rows::bf16, shape.max_cols));
}

void linear(Context& context, const LinearArgs& args) {
  Product(context, args).run();
}

}  // namespace pagoda::cpu
