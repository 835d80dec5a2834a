#include "backend/cuda/sample.h"

#include <algorithm>

#include "backend/cuda/logit_bias.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/random.h"

namespace pagoda::cuda {
namespace {

constexpr int64_t kMaxEdits = 32 << 10;  // sent at once
constexpr int64_t kMaxLogprobs = 64;
constexpr int64_t kAlignment = 256;

// The workspace of sample: rules, tokens, log-probabilities.
struct Layout {
  explicit Layout(int64_t rows)
      : drawn(round_up(rows * int64_t{sizeof(DrawRule)}, kAlignment)),
        top(drawn + round_up(rows * int64_t{sizeof(Drawn)}, kAlignment)),
        total(top + round_up(rows * kMaxLogprobs * int64_t{sizeof(TopLogprob)}, kAlignment)) {}
  int64_t drawn, top, total;
};

LogitEdit edit_of(int64_t row, int32_t at) {
  LogitEdit edit = {};
  edit.row = static_cast<int32_t>(row);
  edit.at = at;
  return edit;
}

}  // namespace

int64_t Sampling::workspace_bytes(const WorkspaceShape& shape) {
  if (shape.max_logit_rows == 0) return 0;
  return std::max(kMaxEdits * int64_t{sizeof(LogitEdit)}, Layout(shape.max_logit_rows).total);
}

void Sampling::reserve(const WorkspaceShape& shape, std::byte* workspace) {
  workspace_ = workspace;
  max_rows_ = shape.max_logit_rows;
  edits_.reserve(kMaxEdits);
  rules_.resize(max_rows_);
  drawn_.resize(max_rows_);
  top_.resize(max_rows_ * kMaxLogprobs);
}

void Sampling::copy(void* to, const void* from, int64_t bytes, cudaMemcpyKind kind) {
  CUDA_CHECK(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), kind, stream_));
  CUDA_CHECK(cudaStreamSynchronize(stream_));
}

void Sampling::flush(const ProcessLogitsArgs& args, EditKind kind) {
  if (edits_.empty()) return;
  copy(workspace_,
       edits_.data(),
       static_cast<int64_t>(edits_.size() * sizeof(LogitEdit)),
       cudaMemcpyHostToDevice);
  launch_edits({.logits = args.logits.as<float>(),
                .edits = reinterpret_cast<const LogitEdit*>(workspace_),
                .row_floats = args.logits.row_bytes() / int64_t{sizeof(float)},
                .vocabulary = static_cast<int32_t>(args.logits.cols()),
                .num_edits = static_cast<int32_t>(edits_.size()),
                .kind = kind},
               {.stream = stream_});
  edits_.clear();
}

void Sampling::process_logits(const ProcessLogitsArgs& args) {
  PG_CHECK(workspace_ != nullptr, "no workspace");
  PG_CHECK(args.logits.rows() == int64_t(args.rows.size()), "{} rules", args.rows.size());
  edits_.clear();  // of a call that failed
  const auto add = [&](EditKind kind, const LogitEdit& edit) {
    edits_.push_back(edit);
    if (edits_.size() == kMaxEdits) flush(args, kind);
  };
  for (size_t r = 0; r < args.rows.size(); r++)
    for (const TokenCount& count : args.rows[r].counts) {
      if (count.in_prompt + count.in_output == 0) continue;
      LogitEdit edit = edit_of(int64_t(r), count.token);
      edit.repetition = args.rows[r].repetition_penalty;
      if (count.in_output > 0)
        edit.amount = args.rows[r].presence_penalty +
                      args.rows[r].frequency_penalty * static_cast<float>(count.in_output);
      add(EditKind::penalty, edit);
    }
  flush(args, EditKind::penalty);
  for (size_t r = 0; r < args.rows.size(); r++)
    for (const TokenValue& bias : folded_biases(args.rows[r].bias)) {
      LogitEdit edit = edit_of(int64_t(r), bias.token);
      edit.amount = bias.value;
      add(EditKind::bias, edit);
    }
  flush(args, EditKind::bias);
  for (size_t r = 0; r < args.rows.size(); r++)
    for (size_t word = 0; word < args.rows[r].mask.size(); word++) {
      LogitEdit edit = edit_of(int64_t(r), static_cast<int32_t>(word));
      edit.allowed = args.rows[r].mask[word];
      if (edit.allowed != ~0u) add(EditKind::mask, edit);
    }
  flush(args, EditKind::mask);
}

void Sampling::sample(const SampleArgs& args) {
  const int64_t R = args.logits.rows(), n = args.max_logprobs;
  PG_CHECK(workspace_ != nullptr && R <= max_rows_, "{} rows, reserved {}", R, max_rows_);
  PG_CHECK(int64_t(args.rows.size()) == R && int64_t(args.out.size()) == R, "{} rows", R);
  if (n > kMaxLogprobs)
    throw Error("cuda.unsupported", "{} log-probabilities: up to {} are", n, kMaxLogprobs);
  if (R == 0) return;
  for (int64_t r = 0; r < R; r++) {
    const SampleRow& row = args.rows[r];
    rules_[r] = {.draw = uniform_draw(row.seed, row.choice, row.position),
                 .temperature = row.temperature,
                 .top_p = row.top_p,
                 .min_p = row.min_p,
                 .top_k = row.top_k,
                 .num_logprobs = row.num_logprobs,
                 .unused = 0};
  }
  const Layout layout(max_rows_);
  copy(workspace_, rules_.data(), R * int64_t{sizeof(DrawRule)}, cudaMemcpyHostToDevice);
  launch_sample({.logits = args.logits.as<float>(),
                 .rules = reinterpret_cast<const DrawRule*>(workspace_),
                 .drawn = reinterpret_cast<Drawn*>(workspace_ + layout.drawn),
                 .top = reinterpret_cast<TopLogprob*>(workspace_ + layout.top),
                 .row_floats = args.logits.row_bytes() / int64_t{sizeof(float)},
                 .vocabulary = static_cast<int32_t>(args.logits.cols()),
                 .num_rows = static_cast<int32_t>(R),
                 .max_logprobs = args.max_logprobs},
                {.stream = stream_});
  copy(
      drawn_.data(), workspace_ + layout.drawn, R * int64_t{sizeof(Drawn)}, cudaMemcpyDeviceToHost);
  for (int64_t r = 0; r < R; r++)
    args.out[r] = {
        .token = drawn_[r].token, .has_nan = drawn_[r].has_nan != 0, .logprob = drawn_[r].logprob};
  if (n == 0) return;
  copy(top_.data(),
       workspace_ + layout.top,
       R * n * int64_t{sizeof(TopLogprob)},
       cudaMemcpyDeviceToHost);
  std::transform(top_.begin(), top_.begin() + R * n, args.top_logprobs.begin(), [](TopLogprob t) {
    return TokenValue{t.token, t.value};
  });
}

}  // namespace pagoda::cuda
