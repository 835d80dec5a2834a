#include "attention_line.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "backend/cuda/append.h"

namespace pagoda::cuda {
namespace {

constexpr int64_t kRotatedBytes = 260 << 20;

}  // namespace

// Median microseconds of one of `launches` calls in a graph.
double graph_us(const std::function<void(cudaStream_t, int)>& call, int launches) {
  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  cudaEvent_t begin, end;
  CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  for (int i = 0; i < launches; i++) call(stream, i);
  CUDA_CHECK(cudaStreamEndCapture(stream, &graph));
  CUDA_CHECK(cudaGraphInstantiate(&exec, graph, 0));
  CUDA_CHECK(cudaEventCreate(&begin));
  CUDA_CHECK(cudaEventCreate(&end));
  std::vector<double> times;
  double spent_ms = 0;
  for (int i = 0; i < 60 && (i < 5 || spent_ms < 25); i++) {
    CUDA_CHECK(cudaEventRecord(begin, stream));
    CUDA_CHECK(cudaGraphLaunch(exec, stream));
    CUDA_CHECK(cudaEventRecord(end, stream));
    CUDA_CHECK(cudaEventSynchronize(end));
    float ms = 0;
    CUDA_CHECK(cudaEventElapsedTime(&ms, begin, end));
    if (i > 0) times.push_back(ms * 1000. / launches), spent_ms += ms;
  }
  std::sort(times.begin(), times.end());
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  cudaGraphExecDestroy(exec);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);
  return times[times.size() / 2];
}

Line::Line(const Shape& shape, std::byte* pool, int64_t pool_bytes) : s_(shape) {
  if (s_.S == 0) s_.S = default_block_size(s_.dtype);
  kv_.kv_heads = s_.KH;
  kv_.format = {s_.dtype, s_.S, s_.D, s_.D};
  kv_.base = pool;
  max_blocks_ = static_cast<int32_t>(ceil_div(s_.len, s_.S));
  const int32_t shared = s_.prefix / s_.S, own = max_blocks_ - shared;
  const int64_t per_copy = shared + int64_t{s_.B} * own;
  copies_ = std::max<int64_t>(1, ceil_div(kRotatedBytes, per_copy * kv_.block_bytes()));
  kv_.num_blocks = copies_ * per_copy;
  PG_CHECK(kv_.num_blocks * kv_.block_bytes() <= pool_bytes, "{}: pool too small", s_.name);
  std::vector<int32_t> blocks(kv_.num_blocks), table;
  std::iota(blocks.begin(), blocks.end(), 0);
  std::shuffle(blocks.begin(), blocks.end(), std::mt19937(3));
  for (int64_t c = 0; c < copies_; c++)
    for (int32_t b = 0; b < s_.B; b++) {
      const int32_t* from = blocks.data() + c * per_copy;
      table.insert(table.end(), from, from + shared);
      table.insert(table.end(), from + shared + b * own, from + shared + (b + 1) * own);
    }
  table_ = to_device<int32_t>(table);
  fill();
  const int64_t width = int64_t{s_.H} * s_.D, T = int64_t{s_.B} * s_.q_len;
  q_ = DeviceBytes(T * width * 2);
  out_ = DeviceBytes(T * width * 2);
  fill_random(q_.as(), true, T, static_cast<int32_t>(width), nullptr, 11, 1.f, nullptr);
  plan();
  CUDA_CHECK(cudaDeviceSynchronize());
}

double Line::bytes() const {
  const double keys = double(s_.prefix) + double(s_.B) * (s_.len - s_.prefix);
  return keys * double(kv_.block_bytes()) / s_.S;
}

void Line::once() {
  launch(nullptr, 0, {}, EarlyLoads::none);
  CUDA_CHECK(cudaDeviceSynchronize());
}

void Line::start(cudaStream_t stream, int i) {
  launch(stream, i % copies_, {}, EarlyLoads::none);
}

double Line::us(DecodeTuning tuning, EarlyLoads early) {
  return graph_us([&](cudaStream_t stream, int i) { launch(stream, i % copies_, tuning, early); },
                  static_cast<int>(std::max<int64_t>(20, copies_)));
}

void Line::fill() {
  const int64_t slots = kv_.num_blocks * s_.S, step = 65536;
  const int32_t width = s_.KH * s_.D;
  DeviceBytes k(step * width * 2), v(step * width * 2), ids(step * 4);
  fill_random(k.as(), true, step, width, nullptr, 1, 1.f, nullptr);
  fill_random(v.as(), true, step, width, nullptr, 2, 1.f, nullptr);
  for (int64_t at = 0; at < slots; at += step) {
    const int64_t n = std::min(step, slots - at);
    std::vector<int32_t> host(n);
    std::iota(host.begin(), host.end(), static_cast<int32_t>(at));
    CUDA_CHECK(cudaMemcpy(ids.as(), host.data(), n * 4, cudaMemcpyHostToDevice));
    RopeStoreKvArgs args = {};
    args.q = TensorView(k.as(), DType::bf16, {n, width});
    args.k = ConstTensorView(k.as(), DType::bf16, {n, width});
    args.v = ConstTensorView(v.as(), DType::bf16, {n, width});
    args.style = RopeStyle::none;
    args.slots = {ids.as<int32_t>(), static_cast<size_t>(n)};
    args.kv = kv_;
    rope_store_kv({args}, {});
    CUDA_CHECK(cudaDeviceSynchronize());
  }
}

void Line::plan() {
  std::vector<int32_t> cu = {0}, lens(s_.B, s_.len);
  for (int32_t b = 0; b < s_.B; b++) cu.push_back(cu.back() + s_.q_len);
  const SharedPrefix prefix[] = {{0, s_.B, s_.prefix}};
  DecodePlanInput in;
  in.cu_q_lens = cu;
  in.kv_lens = lens;
  if (s_.aware) in.shared = prefix;
  in.kv_heads = s_.KH;
  in.group = s_.H / s_.KH;
  in.columns = columns_ = decode_columns(s_.dtype, s_.D, in.group, s_.aware ? 8 : s_.q_len);
  in.full_grid = decode_full_grid(s_.dtype, s_.D, in.columns, 132);
  plan_ = plan_decode(in);
  shape_ = decode_plan_shape(in, s_.B, s_.q_len, int64_t{s_.B} * s_.len);
  std::vector<std::byte> bytes(shape_.num_bytes());
  write_plan(plan_, shape_, bytes);
  device_plan_ = to_device<std::byte>(bytes);
  workspace_ = DeviceBytes(shape_.workspace_bytes(s_.H, s_.D));
}

void Line::launch(cudaStream_t stream, int64_t copy, DecodeTuning tuning, EarlyLoads early) {
  AttentionBatch batch;
  const int64_t entries = int64_t{s_.B} * max_blocks_;
  batch.block_table = {table_.as<int32_t>() + copy * entries, static_cast<size_t>(entries)};
  batch.max_blocks = max_blocks_;
  const int64_t width = int64_t{s_.H} * s_.D, T = int64_t{s_.B} * s_.q_len;
  const AttentionArgs args = {.q = ConstTensorView(q_.as(), DType::bf16, {T, width}),
                              .kv = kv_,
                              .batch = batch,
                              .num_heads = s_.H,
                              .scale = 1.f / std::sqrt(float(s_.D)),
                              .out = TensorView(out_.as(), DType::bf16, {T, width})};
  DecodeLaunch l{.args = args};
  l.plan = device_plan_.as();
  l.shape = shape_;
  l.workspace = workspace_.as();
  l.num_work = plan_.header.num_items * s_.KH;
  l.chunks_per_part = plan_.header.chunks_per_part;
  l.max_sections_per_row = plan_.max_sections_per_row;
  l.max_parts_per_row = merges ? plan_.max_parts_per_row : 1;
  l.columns = columns_;
  l.early_loads = early;
  l.tuning = tuning;
  decode_attention(l, {.stream = stream});
}

}  // namespace pagoda::cuda
