#include "backend/cpu/attention.h"

#include <algorithm>
#include <atomic>
#include <limits>

#include "backend/cpu/attention_plan.h"

namespace pagoda::cpu {
namespace {

constexpr int32_t kNaiveRows = 4;

AttentionScratch take_thread_scratch(Scratch& scratch, int64_t dim, int64_t naive_keys) {
  const int64_t wide_bytes = kChunkTokens * dim * int64_t{sizeof(float)};
  AttentionScratch s;
  s.q = scratch.take<uint32_t>(kMaxItemRows * dim);
  s.o = scratch.take<float>(kMaxItemRows * dim);
  s.max = scratch.take<float>(kMaxItemRows);
  s.sum = scratch.take<float>(kMaxItemRows);
  s.q_sum = scratch.take<float>(kMaxItemRows * kMaxGroups);
  s.position = scratch.take<int32_t>(kMaxItemRows);
  s.scores = scratch.take<float>(kMaxTileRows * kChunkTokens);
  s.best = scratch.take<float>(kMaxTileRows * 16);
  s.weights = scratch.take<uint32_t>(ceil_div(dim, kGroupDims) * kMaxTileRows * kChunkTokens);
  s.wide_k = scratch.take<std::byte>(wide_bytes);
  s.wide_v = scratch.take<std::byte>(wide_bytes);
  s.chunk = scratch.take<AttentionChunk>(1);
  s.row_scores = scratch.take<float>(naive_keys);
  return s;
}

// Scores of a row, in whole pages.
int64_t naive_floats(int64_t keys) {
  return round_up(keys, kPageTokens);
}

int64_t thread_scratch_bytes(int64_t dim, int64_t naive_keys) {
  const int64_t parts[] = {kMaxItemRows * dim * 4,
                           kMaxItemRows * dim * 4,
                           kMaxItemRows * 4,
                           kMaxItemRows * 4,
                           kMaxItemRows * kMaxGroups * 4,
                           kMaxItemRows * 4,
                           kMaxTileRows * kChunkTokens * 4,
                           kMaxTileRows * 16 * 4,
                           ceil_div(dim, kGroupDims) * kMaxTileRows * kChunkTokens * 4,
                           kChunkTokens * dim * 4,
                           kChunkTokens * dim * 4,
                           int64_t{sizeof(AttentionChunk)},
                           naive_keys * 4};
  int64_t bytes = 0;
  for (int64_t part : parts) bytes += Scratch::bytes_for(part);
  return bytes;
}

void check(const AttentionArgs& args) {
  const int64_t dim = args.kv.format.k_dim, cols = args.num_heads * dim;
  PG_CHECK(args.q.dtype() == DType::f32 && args.out.dtype() == DType::f32,
           "q {} out {}",
           name(args.q.dtype()),
           name(args.out.dtype()));
  PG_CHECK(args.q.cols() == cols && args.out.cols() == cols && args.out.rows() == args.q.rows(),
           "q [{}, {}] out [{}, {}] heads {} dim {}",
           args.q.rows(),
           args.q.cols(),
           args.out.rows(),
           args.out.cols(),
           args.num_heads,
           dim);
  PG_CHECK(args.kv.kv_heads > 0 && args.num_heads % args.kv.kv_heads == 0,
           "{} heads, {} KV heads",
           args.num_heads,
           args.kv.kv_heads);
  const AttentionBatch& batch = args.batch;
  PG_CHECK(
      batch.cu_q_lens.size() == batch.kv_lens.size() + 1 && batch.cu_q_lens.back() <= args.q.rows(),
      "{} sequences, {} bounds, {} rows",
      batch.kv_lens.size(),
      batch.cu_q_lens.size(),
      args.q.rows());
}

AttentionJob resolve(const AttentionArgs& args, float* partials) {
  AttentionJob job{};
  job.kv = kv_pages(args.kv);
  job.q = args.q.as<float>();
  job.q_stride = args.q.row_bytes() / int64_t{sizeof(float)};
  job.out = args.out.as<float>();
  job.out_stride = args.out.row_bytes() / int64_t{sizeof(float)};
  if (!args.log_sum_exp.empty()) {
    job.log_sum_exp = args.log_sum_exp.as<float>();
    job.log_sum_exp_stride = args.log_sum_exp.row_bytes() / int64_t{sizeof(float)};
  }
  if (!args.sinks.empty()) job.sinks = args.sinks.as<float>();
  job.partials = partials;
  job.group = args.num_heads / args.kv.kv_heads;
  job.window = args.window;
  job.scale = args.scale;
  job.softcap = args.softcap;
  return job;
}

// Rows whose position is below 0 see no keys.
void write_empty_rows(const AttentionArgs& args) {
  const AttentionBatch& batch = args.batch;
  for (size_t b = 0; b < batch.kv_lens.size(); b++) {
    const int32_t begin = batch.cu_q_lens[b], end = batch.cu_q_lens[b + 1];
    const int32_t empty = std::clamp(end - begin - batch.kv_lens[b], 0, end - begin);
    for (int32_t t = begin; t < begin + empty; t++) {
      std::fill_n(args.out.row<float>(t), args.out.cols(), 0.f);
      if (!args.log_sum_exp.empty())
        std::fill_n(args.log_sum_exp.row<float>(t),
                    args.num_heads,
                    -std::numeric_limits<float>::infinity());
    }
  }
}

// Runs work(item, next, thread) for each item; `next` is what the thread probably does afterwards.
template <typename Work>
void run_items(ThreadPool& threads, const AttentionPlan& plan, Work work) {
  const int64_t count = static_cast<int64_t>(plan.items.size());
  const AttentionItem* items = plan.items.data();
  if (plan.num_threads == 1) {
    for (int64_t i = 0; i < count; i++) work(items[i], i + 1 < count ? items + i + 1 : nullptr, 0);
    return;
  }
  std::atomic<int64_t> taken{0};
  threads.run([&](int thread) {
    if (!plan.thread_begin.empty()) {
      const int64_t end = plan.thread_begin[thread + 1];
      for (int64_t i = plan.thread_begin[thread]; i < end; i++)
        work(items[i], i + 1 < end ? items + i + 1 : nullptr, thread);
      return;
    }
    for (int64_t i; (i = taken.fetch_add(1, std::memory_order_relaxed)) < count;) {
      const int64_t next = i + threads.size();
      work(items[i], next < count ? items + next : nullptr, thread);
    }
  });
}

void run_merges(Context& context, const AttentionJob& job, const AttentionPlan& plan) {
  if (plan.merges.empty()) return;
  if (plan.merges.size() == 1 || context.threads.size() == 1) {
    for (const AttentionItem& item : plan.merges) context.kernels.attention.merge(job, item);
    return;
  }
  context.threads.run([&](int thread) {
    const auto [begin, end] =
        share(static_cast<int64_t>(plan.merges.size()), thread, context.threads.size());
    for (int64_t i = begin; i < end; i++) context.kernels.attention.merge(job, plan.merges[i]);
  });
}

}  // namespace

int64_t attention_scratch_bytes(const WorkspaceShape& shape, int num_threads) {
  const int64_t dim = shape.head_dim;
  return num_threads * thread_scratch_bytes(dim, naive_floats(shape.max_context)) +
         Scratch::bytes_for(max_partial_floats(shape.max_context, dim, num_threads) * 4);
}

void attention(Context& context, const AttentionArgs& args) {
  check(args);
  write_empty_rows(args);
  const bool naive = args.algorithm == AttentionAlgorithm::naive;
  const int num_threads = context.threads.size(), dim = args.kv.format.k_dim;
  const AttentionPlanArgs plan_args{.batch = args.batch,
                                    .kv_heads = args.kv.kv_heads,
                                    .group = args.num_heads / args.kv.kv_heads,
                                    .dim = dim,
                                    .window = args.window,
                                    .num_threads = num_threads};
  const AttentionPlan plan = naive ? plan_rows(plan_args, kNaiveRows) : plan_attention(plan_args);
  int64_t longest = 0;
  if (naive)
    for (int32_t keys : args.batch.kv_lens) longest = std::max<int64_t>(longest, keys);

  Scratch scratch(context);
  const AttentionJob job = resolve(args, scratch.take<float>(plan.partial_floats));
  const int64_t thread_bytes = thread_scratch_bytes(dim, naive_floats(longest));
  std::byte* memory = scratch.take<std::byte>(plan.num_threads * thread_bytes);
  run_items(
      context.threads, plan, [&](const AttentionItem& item, const AttentionItem* next, int thread) {
        Scratch own(memory + thread * thread_bytes, thread_bytes);
        const AttentionScratch s = take_thread_scratch(own, dim, naive_floats(longest));
        if (naive)
          context.kernels.attention.naive(job, item, s);
        else
          context.kernels.attention.attend(job, item, next, s);
      });
  run_merges(context, job, plan);
}

}  // namespace pagoda::cpu
