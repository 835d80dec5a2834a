#include "backend/cuda/check/prefill_case.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "backend/cuda/append.h"
#include "backend/cuda/check/reference_kernels.h"
#include "backend/cuda/format.h"

namespace pagoda::cuda {
namespace {

constexpr int32_t kNeverRead = 0x3FFFFFFF;
constexpr int32_t kJumpKeys = 37;  // keys of one gain

float jump_gain(Jumps jumps, int32_t at, int32_t kv_len) {
  const float part = float(at) / float(kv_len);
  switch (jumps) {
    case Jumps::rising:  // toward position 0, where the kernel's loop ends
      return 1.f + 40.f * (1.f - part);
    case Jumps::falling:
      return 1.f + 40.f * part;
    case Jumps::spikes:
      return at / kJumpKeys % 6 == 2 ? 60.f : 0.3f;
    case Jumps::none:
      break;
  }
  return 1.f;
}

std::vector<std::byte> plan_bytes(const PrefillPlan& plan) {
  const PrefillPlanShape shape = shape_of(plan);
  std::vector<std::byte> bytes(shape.num_bytes());
  write_plan(plan, shape, bytes);
  return bytes;
}

}  // namespace

PrefillCase::PrefillCase(const PrefillCaseShape& shape) : s_(shape) {
  if (s_.dtype == KvDType::bf16) s_.q_dtype = DType::bf16;
  if (s_.dtype == KvDType::f16) s_.q_dtype = DType::f16;
  if (s_.q_lens.empty()) s_.q_lens = s_.kv_lens;
  cu_q_lens_.assign(1, 0);
  for (int32_t q : s_.q_lens) cu_q_lens_.push_back(cu_q_lens_.back() + q);
  T_ = cu_q_lens_.back();
  kv_.kv_heads = s_.kv_heads;
  kv_.format = {s_.dtype, s_.block_size, s_.head_dim, s_.head_dim};
  lay_out_blocks();
  const int64_t bytes = kv_.num_blocks * kv_.block_bytes();
  pool_ = DeviceBytes(bytes);
  kv_.base = pool_.as();
  const int64_t used = s_.first_block * kv_.block_bytes();
  CUDA_CHECK(cudaMemset(pool_.as() + used, 0xFF, bytes - used));
  out_ = DeviceBytes(int64_t{T_} * s_.num_heads * s_.head_dim * 2);
  sums_ = DeviceBytes(int64_t{T_} * s_.num_heads * 4);
  std::vector<float> sinks(s_.num_heads), scales(2 * s_.kv_heads);
  for (size_t i = 0; i < scales.size(); i++) scales[i] = 0.011f + 0.003f * float(i);
  scales_ = to_device<float>(scales);
  for (int32_t h = 0; h < s_.num_heads; h++) sinks[h] = 0.5f * float(h % 7) - 1.f;
  sinks_ = to_device<float>(sinks);
  const int32_t zero[1] = {0};
  ticket_ = to_device<int32_t>(zero);
  write_queries();
  write_cache();
  const KvDType attended = !s_.scratch ? s_.dtype : is_bf16() ? KvDType::bf16 : KvDType::f16;
  tile_ = prefill_tile(attended, s_.head_dim, s_.path);
  if (tile_.span_tiles > 0 && s_.span_tiles > 0) tile_.span_tiles = s_.span_tiles;
  plans_ = make_plans(cu_q_lens_, s_.kv_lens);
  int64_t num_parts = 0;
  part_plan_bytes_ = 64 * sizeof(PrefillTile);  // a chunk's rows may lie in one tile more
  for (const PrefillPlan& plan : plans_) {
    const std::vector<std::byte> bytes = plan_bytes(plan);
    device_plans_.push_back({to_device<std::byte>(bytes), shape_of(plan)});
    part_plan_bytes_ += shape_of(plan).num_bytes();
    num_parts += plan.header.num_parts;
  }
  part_plan_.bytes = DeviceBytes(part_plan_bytes_);
  workspace_bytes_ = std::min(num_parts, int64_t{s_.max_parts}) *
                     PrefillPlanShape::part_bytes(s_.num_heads, s_.head_dim);
  workspace_ = DeviceBytes(workspace_bytes_);
  scratch_ = make_scratch(cu_q_lens_, s_.kv_lens);
  CUDA_CHECK(cudaDeviceSynchronize());
}

// Its memory and its plan's are those of the last one made; the first is the largest.
PrefillScratch PrefillCase::make_scratch(std::span<const int32_t> cu_q_lens,
                                         std::span<const int32_t> kv_lens) {
  if (!s_.scratch) return {};
  const std::vector<ScratchBlock> blocks =
      plan_prefill_scratch({.cu_q_lens = cu_q_lens, .kv_lens = kv_lens, .window = s_.window});
  PrefillScratch scratch;
  scratch.shape.max_blocks = static_cast<int32_t>(blocks.size()) + 2;
  scratch.shape.max_seqs = static_cast<int32_t>(s_.kv_lens.size());
  scratch.shape.max_keys_per_seq = max_blocks_ * s_.block_size;
  scratch.shape.dtype = is_bf16() ? KvDType::bf16 : KvDType::f16;
  scratch.shape.kv_heads = s_.kv_heads;
  scratch.shape.head_dim = s_.head_dim;
  std::vector<std::byte> plan(scratch.shape.plan_bytes());
  write_plan(blocks, scratch.shape, plan);
  const bool is_whole = kv_lens.data() == s_.kv_lens.data();
  if (is_whole) {
    scratch_memory_ = DeviceBytes(scratch.shape.num_bytes());
    scratch_plan_ = DeviceBytes(plan.size());
    part_scratch_plan_ = DeviceBytes(plan.size());
  }
  const DeviceBytes& to = is_whole ? scratch_plan_ : part_scratch_plan_;
  CUDA_CHECK(cudaMemcpy(to.as(), plan.data(), plan.size(), cudaMemcpyHostToDevice));
  scratch.memory = scratch_memory_.as();
  scratch.plan = to.as();
  return scratch;
}

std::vector<PrefillPlan> PrefillCase::make_plans(std::span<const int32_t> cu_q_lens,
                                                 std::span<const int32_t> kv_lens) const {
  PrefillPlanInput in;
  in.cu_q_lens = cu_q_lens;
  in.kv_lens = kv_lens;
  in.tile_rows = tile_.rows;
  in.tile_keys = tile_.keys;
  in.span_tiles = tile_.span_tiles;
  in.whole_keys = s_.whole_keys;
  in.max_parts = s_.max_parts;
  in.window = s_.window;
  in.mask = s_.mask;
  return plan_prefill(in);
}

void PrefillCase::lay_out_blocks() {
  const int32_t B = static_cast<int32_t>(s_.kv_lens.size()), S = s_.block_size;
  const int32_t longest = *std::max_element(s_.kv_lens.begin(), s_.kv_lens.end());
  max_blocks_ = static_cast<int32_t>(ceil_div(longest, S)) + 1;
  int64_t total = 1;
  for (int32_t len : s_.kv_lens) total += ceil_div(len, S);
  std::vector<int32_t> free(total);
  std::iota(free.begin(), free.end(), s_.first_block);
  if (!s_.rising_blocks) std::shuffle(free.begin(), free.end(), std::mt19937(s_.seed + 77));
  kv_.num_blocks = s_.first_block + total;
  table_.assign(int64_t{B} * max_blocks_, kNeverRead);
  size_t next = 0;
  for (int32_t b = 0; b < B; b++)
    for (int32_t i = 0; i < ceil_div(s_.kv_lens[b], S); i++)
      table_[int64_t{b} * max_blocks_ + i] = free[next++];
}

void PrefillCase::write_queries() {
  const int32_t width = s_.num_heads * s_.head_dim, product = width + 2 * s_.kv_heads * s_.head_dim;
  q_ = DeviceBytes(int64_t{T_} * product * 2 + 16);
  CUDA_CHECK(cudaMemset(q_.as(), 0xFF, int64_t{T_} * product * 2));
  std::vector<uint64_t> ids;
  for (size_t b = 0; b < s_.q_lens.size(); b++)
    for (int32_t i = 0; i < s_.q_lens[b]; i++)
      ids.push_back((uint64_t{1} << 40) + (uint64_t(b) << 32) +
                    uint32_t(s_.kv_lens[b] - s_.q_lens[b] + i));
  if (ids.empty()) return;
  const DeviceBytes device_ids = to_device<uint64_t>(ids);
  const DeviceBytes rows(int64_t{T_} * width * 2);
  fill_random(rows.as<void>(),
              is_bf16(),
              T_,
              width,
              device_ids.as<uint64_t>(),
              s_.seed + 5,
              s_.q_gain,
              nullptr);
  CUDA_CHECK(cudaMemcpy2D(
      q_.as(), product * 2, rows.as(), width * 2, width * 2, T_, cudaMemcpyDeviceToDevice));
}

void PrefillCase::write_cache() {
  const int32_t B = static_cast<int32_t>(s_.kv_lens.size()), S = s_.block_size;
  const int32_t width = s_.kv_heads * s_.head_dim;
  const bool bf16 = is_bf16();
  for (int32_t b = 0; b < B; b++) {
    const int32_t n = s_.kv_lens[b];
    if (n == 0) continue;
    std::vector<uint64_t> ids;
    std::vector<int32_t> slots;
    for (int32_t i = 0; i < n; i++) {
      ids.push_back((uint64_t(b) << 32) + i);
      slots.push_back(table_[int64_t{b} * max_blocks_ + i / S] * S + i % S);
    }
    const DeviceBytes device_ids = to_device<uint64_t>(ids);
    const DeviceBytes device_slots = to_device<int32_t>(slots);
    const DeviceBytes k(int64_t{n} * width * 2), v(int64_t{n} * width * 2),
        q(int64_t{n} * s_.head_dim * 2);
    const int32_t step = s_.jumps == Jumps::none ? n : kJumpKeys;
    for (int32_t i = 0; i < n; i += step)
      fill_random(k.as() + int64_t{i} * width * 2,
                  bf16,
                  std::min(step, n - i),
                  width,
                  device_ids.as<uint64_t>() + i,
                  s_.seed,
                  jump_gain(s_.jumps, i, n),
                  nullptr);
    fill_random(v.as<void>(), bf16, n, width, device_ids.as<uint64_t>(), s_.seed + 1, 1.f, nullptr);
    RopeStoreKvArgs args = {};
    const DType dtype = s_.q_dtype;
    args.q = TensorView(q.as(), dtype, {n, 0});
    args.k = ConstTensorView(k.as(), dtype, {n, width});
    args.v = ConstTensorView(v.as(), dtype, {n, width});
    args.style = RopeStyle::none;
    args.slots = {device_slots.as<int32_t>(), static_cast<size_t>(n)};
    args.kv = kv_;
    AppendLaunch append = {args};
    append.k_scales = k_scales();
    append.v_scales = v_scales();
    rope_store_kv(append, {});
    CUDA_CHECK(cudaDeviceSynchronize());
  }
  if (s_.window > 0)  // what the window has left behind must not be read
    for (int32_t b = 0; b < B; b++)
      for (int32_t i = 0; i < (s_.kv_lens[b] - s_.q_lens[b] - s_.window + 1) / S; i++)
        table_[int64_t{b} * max_blocks_ + i] = kNeverRead;
  device_table_ = to_device<int32_t>(table_);
}

// `seq` and those behind it.
AttentionBatch PrefillCase::batch_from(int32_t seq) const {
  AttentionBatch batch;
  batch.block_table = {device_table_.as<int32_t>() + int64_t{seq} * max_blocks_,
                       table_.size() - int64_t{seq} * max_blocks_};
  batch.max_blocks = max_blocks_;
  batch.host_cu_q_lens = cu_q_lens_;
  batch.host_kv_lens = s_.kv_lens;
  return batch;
}

AttentionArgs PrefillCase::args_of(const Part& part, const AttentionBatch& batch) const {
  const int64_t width = int64_t{s_.num_heads} * s_.head_dim;
  const int64_t product = width + 2 * s_.kv_heads * s_.head_dim;
  const DType dtype = s_.q_dtype;
  const ConstTensorView qkv(q_.as() + part.row * product * 2, dtype, {part.num_rows, product});
  return {.q = qkv.slice_cols(0, width),
          .kv = kv_,
          .batch = batch,
          .num_heads = s_.num_heads,
          .scale = 1.f / std::sqrt(float(s_.head_dim)),
          .window = s_.window,
          .softcap = s_.softcap,
          .sinks = s_.sinks ? ConstTensorView(sinks_.as(), DType::f32, {1, s_.num_heads})
                            : ConstTensorView(),
          .out = TensorView(out_.as() + part.row * width * 2, dtype, {part.num_rows, width}),
          .log_sum_exp = TensorView(sums_.as() + int64_t{part.row} * s_.num_heads * 4,
                                    DType::f32,
                                    {part.num_rows, s_.num_heads})};
}

void PrefillCase::launch(const Part& part,
                         const DevicePlan& plan,
                         const PrefillScratch& scratch,
                         cudaStream_t stream) {
  const AttentionBatch batch = batch_from(part.seq);
  const AttentionArgs args = args_of(part, batch);
  PrefillLaunch launch{.args = args};
  launch.plan = plan.bytes.as();
  launch.shape = plan.shape;
  launch.workspace = workspace_.as();
  launch.tile = tile_;
  launch.mask = s_.mask;
  launch.ticket = ticket_.as<int32_t>();
  launch.section_heads = s_.section_heads;
  launch.num_multiprocessors = s_.num_multiprocessors;
  launch.ranks = s_.ranks;
  launch.path = s_.path;
  launch.scratch = scratch;
  launch.k_scales = k_scales();
  launch.v_scales = v_scales();
  prefill_attention(launch, {.stream = stream});
}

void PrefillCase::run(cudaStream_t stream) {
  PrefillScratch scratch = scratch_;
  for (const DevicePlan& plan : device_plans_) {
    launch({0, 0, T_, 0}, plan, scratch, stream);
    scratch.is_filled = true;
  }
}

void PrefillCase::run_by(Attention& attention) {
  const AttentionBatch batch = batch_from(0);
  attention.run(args_of({0, 0, T_, 0}, batch), EarlyLoads::none);
}

void PrefillCase::poison() {
  CUDA_CHECK(cudaMemset(out_.as(), 0xFF, int64_t{T_} * s_.num_heads * s_.head_dim * 2));
  CUDA_CHECK(cudaMemset(sums_.as(), 0xFF, int64_t{T_} * s_.num_heads * 4));
  if (workspace_bytes_ > 0) CUDA_CHECK(cudaMemset(workspace_.as(), 0xFF, workspace_bytes_));
  if (s_.scratch) CUDA_CHECK(cudaMemset(scratch_.memory, 0xFF, scratch_.shape.num_bytes()));
}

std::vector<uint16_t> PrefillCase::output() {
  poison();
  run(nullptr);
  return last_output();
}

std::vector<uint16_t> PrefillCase::output_in_chunks(int32_t rows) {
  poison();
  for (size_t b = 0; b < s_.q_lens.size(); b++)
    for (int32_t at = 0; at < s_.q_lens[b]; at += rows) {
      const int32_t n = std::min(rows, s_.q_lens[b] - at), cu[2] = {0, n};
      const int32_t kv_len = s_.kv_lens[b] - s_.q_lens[b] + at + n;
      PrefillScratch scratch = make_scratch(cu, {&kv_len, 1});
      for (const PrefillPlan& plan : make_plans(cu, {&kv_len, 1})) {
        const std::vector<std::byte> bytes = plan_bytes(plan);
        PG_CHECK(int64_t(bytes.size()) <= part_plan_bytes_, "{} bytes", bytes.size());
        part_plan_.shape = shape_of(plan);
        CUDA_CHECK(
            cudaMemcpy(part_plan_.bytes.as(), bytes.data(), bytes.size(), cudaMemcpyHostToDevice));
        launch(
            {static_cast<int32_t>(b), cu_q_lens_[b] + at, n, kv_len}, part_plan_, scratch, nullptr);
        CUDA_CHECK(cudaDeviceSynchronize());
        scratch.is_filled = true;
      }
    }
  return last_output();
}

std::vector<uint16_t> PrefillCase::last_output() {
  CUDA_CHECK(cudaDeviceSynchronize());
  last_.resize(int64_t{T_} * s_.num_heads * s_.head_dim);
  CUDA_CHECK(cudaMemcpy(last_.data(), out_.as(), last_.size() * 2, cudaMemcpyDeviceToHost));
  return last_;
}

int32_t PrefillCase::ticket() const {
  int32_t x = 0;
  CUDA_CHECK(cudaMemcpy(&x, ticket_.as(), 4, cudaMemcpyDeviceToHost));
  return x;
}

// {sequence, last key, first key} of each row.
std::vector<int32_t> PrefillCase::reference_rows() const {
  std::vector<int32_t> rows;
  for (size_t b = 0; b < s_.q_lens.size(); b++)
    for (int32_t i = 0; i < s_.q_lens[b]; i++) {
      const int32_t position = s_.kv_lens[b] - s_.q_lens[b] + i;
      rows.push_back(static_cast<int32_t>(b));
      rows.push_back(s_.mask == PrefillMask::full ? s_.kv_lens[b] - 1 : position);
      rows.push_back(s_.window > 0 ? std::max(0, position - s_.window + 1) : 0);
    }
  return rows;
}

ReferenceParams PrefillCase::reference_params() const {
  ReferenceParams p = {};
  p.kv = reinterpret_cast<const uint8_t*>(kv_.base);
  p.sinks = s_.sinks ? sinks_.as<float>() : nullptr;
  p.block_table = device_table_.as<int32_t>();
  p.block_bytes = kv_.block_bytes();
  p.head_bytes = static_cast<int32_t>(kv_.format.head_bytes());
  p.v_offset = static_cast<int32_t>(kv_.format.v_offset());
  p.k_scales_offset = static_cast<int32_t>(kv_.format.k_scales_offset());
  p.v_scales_offset = static_cast<int32_t>(kv_.format.v_scales_offset());
  p.k_scales = k_scales();
  p.v_scales = v_scales();
  p.max_blocks = max_blocks_;
  p.block_size = s_.block_size;
  p.num_heads = s_.num_heads;
  p.group = s_.num_heads / s_.kv_heads;
  p.head_dim = s_.head_dim;
  p.max_keys = std::max(1, *std::max_element(s_.kv_lens.begin(), s_.kv_lens.end()));
  p.scale = 1.f / std::sqrt(float(s_.head_dim));
  p.softcap = s_.softcap;
  p.format = cuda_format(s_.dtype);
  p.q_is_bf16 = is_bf16();
  if (s_.scratch) p.rounding = is_bf16() ? ReferenceRounding::bf16 : ReferenceRounding::f16;
  return p;
}

CaseError PrefillCase::error() {
  const int32_t H = s_.num_heads, D = s_.head_dim;
  ReferenceParams p = reference_params();
  const int64_t n = int64_t{T_} * H;
  const DeviceBytes device_rows = to_device<int32_t>(reference_rows());
  const DeviceBytes scores(n * p.max_keys * 8), out(n * D * 8), sums(n * 8), q(n * D * 2);
  const int64_t width = int64_t{H} * D, product = width + 2 * s_.kv_heads * D;
  CUDA_CHECK(cudaMemcpy2D(
      q.as(), width * 2, q_.as(), product * 2, width * 2, T_, cudaMemcpyDeviceToDevice));
  p.q = q.as();
  p.rows = device_rows.as<int32_t>();
  p.scores = scores.as<double>();
  p.out = out.as<double>();
  p.log_sum_exp = sums.as<double>();
  launch_reference(p, T_, nullptr);
  CUDA_CHECK(cudaDeviceSynchronize());
  std::vector<double> want(n * D), want_sums(n);
  std::vector<float> got_sums(n);
  CUDA_CHECK(cudaMemcpy(want.data(), out.as(), n * D * 8, cudaMemcpyDeviceToHost));
  CUDA_CHECK(cudaMemcpy(want_sums.data(), sums.as(), n * 8, cudaMemcpyDeviceToHost));
  CUDA_CHECK(cudaMemcpy(got_sums.data(), sums_.as(), n * 4, cudaMemcpyDeviceToHost));
  return compare_rows(last_, is_bf16() ? RowBits::bf16 : RowBits::f16, want, got_sums, want_sums);
}

}  // namespace pagoda::cuda
