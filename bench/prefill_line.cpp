#include "prefill_line.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "backend/cuda/append.h"

namespace pagoda::cuda {

PrefillLine::PrefillLine(const PrefillShape& shape) : s_(shape) {
  cu_.assign(1, 0);
  for (int32_t q : s_.q_lens) cu_.push_back(cu_.back() + q);
  kv_.kv_heads = s_.KH;
  kv_.format = {s_.dtype, s_.S, s_.D, s_.D};
  lay_out_blocks();
  pool_ = DeviceBytes(kv_.num_blocks * kv_.block_bytes());
  kv_.base = pool_.as();
  fill();
  const int64_t width = int64_t{s_.H} * s_.D;
  q_ = DeviceBytes(cu_.back() * width * 2);
  out_ = DeviceBytes(cu_.back() * width * 2);
  fill_random(q_.as(), true, cu_.back(), static_cast<int32_t>(width), nullptr, 11, 1.f, nullptr);
  const int32_t zero[1] = {0};
  ticket_ = to_device<int32_t>(zero);
  plan();
  CUDA_CHECK(cudaDeviceSynchronize());
}

double PrefillLine::flops() const {
  double scores = 0;
  for (size_t b = 0; b < s_.q_lens.size(); b++) {
    const double q = s_.q_lens[b], kv = s_.kv_lens[b];
    scores += s_.mask == PrefillMask::full ? q * kv : q * (kv - q / 2);
  }
  return 4. * s_.H * s_.D * scores;
}

void PrefillLine::launch(cudaStream_t stream) {
  AttentionBatch batch;
  batch.block_table = {table_.as<int32_t>(), s_.q_lens.size() * max_blocks_};
  batch.max_blocks = max_blocks_;
  const int64_t width = int64_t{s_.H} * s_.D, T = cu_.back();
  const AttentionArgs args = {.q = ConstTensorView(q_.as(), DType::bf16, {T, width}),
                              .kv = kv_,
                              .batch = batch,
                              .num_heads = s_.H,
                              .scale = 1.f / std::sqrt(float(s_.D)),
                              .out = TensorView(out_.as(), DType::bf16, {T, width})};
  PrefillLaunch l{.args = args};
  l.plan = device_plan_.as();
  l.shape = plan_shape_;
  l.workspace = workspace_.as();
  l.tile = tile_;
  l.mask = s_.mask;
  l.ranks = s_.ranks;
  l.path = s_.path;
  l.scratch = scratch_;
  l.ticket = ticket_.as<int32_t>();
  prefill_attention(l, {.stream = stream});
}

void PrefillLine::lay_out_blocks() {
  const int32_t longest = *std::max_element(s_.kv_lens.begin(), s_.kv_lens.end());
  max_blocks_ = static_cast<int32_t>(ceil_div(longest, s_.S));
  kv_.num_blocks = 0;
  for (int32_t len : s_.kv_lens) kv_.num_blocks += ceil_div(len, s_.S);
  std::vector<int32_t> blocks(kv_.num_blocks), table(s_.kv_lens.size() * max_blocks_);
  std::iota(blocks.begin(), blocks.end(), 0);
  if (s_.random_blocks) std::shuffle(blocks.begin(), blocks.end(), std::mt19937(3));
  size_t next = 0;
  for (size_t b = 0; b < s_.kv_lens.size(); b++)
    for (int32_t i = 0; i < ceil_div(s_.kv_lens[b], s_.S); i++)
      table[b * max_blocks_ + i] = blocks[next++];
  table_ = to_device<int32_t>(table);
}

void PrefillLine::fill() {
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
    args.q = TensorView(k.as(), DType::bf16, {n, 0});
    args.k = ConstTensorView(k.as(), DType::bf16, {n, width});
    args.v = ConstTensorView(v.as(), DType::bf16, {n, width});
    args.style = RopeStyle::none;
    args.slots = {ids.as<int32_t>(), static_cast<size_t>(n)};
    args.kv = kv_;
    rope_store_kv({args}, {});
    CUDA_CHECK(cudaDeviceSynchronize());
  }
}

void PrefillLine::plan() {
  tile_ = prefill_tile(s_.scratch ? KvDType::bf16 : s_.dtype, s_.D, s_.path);
  PrefillPlanInput in;
  in.cu_q_lens = cu_;
  in.kv_lens = s_.kv_lens;
  in.tile_rows = tile_.rows;
  in.tile_keys = tile_.keys;
  in.mask = s_.mask;
  in.span_tiles = tile_.span_tiles;
  const PrefillPlan plan = plan_prefill(in).front();  // with room for all parts: one launch
  plan_shape_ = shape_of(plan);
  workspace_ = DeviceBytes(plan_shape_.workspace_bytes(s_.H, s_.D));
  std::vector<std::byte> bytes(plan_shape_.num_bytes());
  write_plan(plan, plan_shape_, bytes);
  device_plan_ = to_device<std::byte>(bytes);
  if (!s_.scratch) return;
  const std::vector<ScratchBlock> blocks = plan_prefill_scratch(in);
  PrefillScratchShape& scratch = scratch_.shape;
  scratch.max_blocks = static_cast<int32_t>(blocks.size());
  scratch.max_seqs = static_cast<int32_t>(s_.kv_lens.size());
  scratch.max_keys_per_seq = max_blocks_ * s_.S;
  scratch.kv_heads = s_.KH;
  scratch.head_dim = s_.D;
  bytes.resize(scratch.plan_bytes());
  write_plan(blocks, scratch, bytes);
  scratch_memory_ = DeviceBytes(scratch.num_bytes());
  scratch_plan_ = to_device<std::byte>(bytes);
  scratch_.memory = scratch_memory_.as();
  scratch_.plan = scratch_plan_.as();
}

}  // namespace pagoda::cuda
