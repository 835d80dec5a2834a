#include "backend/cuda/check/decode_case.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>

#include "backend/cuda/append.h"
#include "backend/cuda/check/reference_kernels.h"
#include "backend/cuda/format.h"

namespace pagoda::cuda {
namespace {

constexpr int32_t kNeverRead = 0x3FFFFFFF;

ConstTensorView view(const void* data, DType dtype, int64_t rows, int64_t cols) {
  return {static_cast<const std::byte*>(data), dtype, {rows, cols}};
}
TensorView view(void* data, DType dtype, int64_t rows, int64_t cols) {
  return {static_cast<std::byte*>(data), dtype, {rows, cols}};
}

}  // namespace

void fill_random(void* rows,
                 bool bf16,
                 int64_t n,
                 int32_t width,
                 const uint64_t* ids,
                 uint32_t seed,
                 float gain,
                 cudaStream_t stream) {
  RandomParams p = {rows, ids, n, width, seed, gain, bf16};
  launch_random(p, stream);
}

DecodeCase::DecodeCase(const CaseShape& shape) : s_(shape) {
  const int32_t B = static_cast<int32_t>(s_.kv_lens.size());
  if (s_.q_lens.empty()) s_.q_lens.assign(B, 1);
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
  CUDA_CHECK(cudaMemset(pool_.as() + used, 0xFF, bytes - used));  // NaN in every format
  const int64_t width = int64_t{s_.num_heads} * s_.head_dim;
  q_ = DeviceBytes(T_ * width * 2 + 16);
  std::vector<uint64_t> ids(T_);
  for (int32_t b = 0; b < B; b++)
    for (int32_t r = cu_q_lens_[b]; r < cu_q_lens_[b + 1]; r++)
      ids[r] = (uint64_t{1} << 40) + (uint64_t(s_.first_seq + b) << 32) +
               (s_.kv_lens[b] - cu_q_lens_[b + 1] + r);
  DeviceBytes device_ids = to_device<uint64_t>(ids);
  fill_random(q_.as(),
              s_.q_dtype == DType::bf16,
              T_,
              width,
              device_ids.as<uint64_t>(),
              s_.seed + 5,
              s_.q_gain,
              nullptr);
  out_ = DeviceBytes(T_ * width * 2);
  sums_ = DeviceBytes(int64_t{T_} * s_.num_heads * 4);
  std::vector<float> sinks(s_.num_heads), scales(2 * s_.kv_heads);
  for (int32_t h = 0; h < s_.num_heads; h++) sinks[h] = 0.5f * float(h % 7) - 1.f;
  for (size_t i = 0; i < scales.size(); i++) scales[i] = 0.011f + 0.003f * float(i);
  sinks_ = to_device<float>(sinks);
  scales_ = to_device<float>(scales);
  write_cache();
  make_plan();
  CUDA_CHECK(cudaDeviceSynchronize());
}

void DecodeCase::lay_out_blocks() {
  const int32_t B = static_cast<int32_t>(s_.kv_lens.size()), S = s_.block_size;
  const int32_t longest = *std::max_element(s_.kv_lens.begin(), s_.kv_lens.end());
  max_blocks_ = std::max<int32_t>(1, static_cast<int32_t>(ceil_div(longest, S)) + 1);
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
  for (const SharedPrefix& p : s_.shared)
    for (int32_t b = p.first_seq + 1; b < p.first_seq + p.num_seqs; b++)
      std::copy_n(table_.begin() + int64_t{p.first_seq} * max_blocks_,
                  p.num_keys / S,
                  table_.begin() + int64_t{b} * max_blocks_);
}

void DecodeCase::write_cache() {
  const int32_t B = static_cast<int32_t>(s_.kv_lens.size()), S = s_.block_size;
  std::vector<uint64_t> ids;
  std::vector<int32_t> slots;
  for (int32_t b = 0; b < B; b++)
    for (int32_t i = 0; i < s_.kv_lens[b]; i++) {
      int32_t owner = b;
      for (const SharedPrefix& p : s_.shared)
        if (b > p.first_seq && b < p.first_seq + p.num_seqs && i < p.num_keys) owner = p.first_seq;
      ids.push_back((uint64_t(s_.first_seq + owner) << 32) + i);
      slots.push_back((table_[int64_t{b} * max_blocks_ + i / S]) * S + i % S);
    }
  // What a window has left behind must not be read either.
  if (s_.window > 0)
    for (int32_t b = 0; b < B; b++)
      for (int32_t i = 0; i < (s_.kv_lens[b] - s_.q_lens[b] - s_.window + 1) / S; i++)
        table_[int64_t{b} * max_blocks_ + i] = kNeverRead;
  device_table_ = to_device<int32_t>(table_);
  const int64_t n = static_cast<int64_t>(ids.size());
  if (n == 0) return;
  const int32_t width = s_.kv_heads * s_.head_dim;
  DeviceBytes device_ids = to_device<uint64_t>(ids), device_slots = to_device<int32_t>(slots);
  DeviceBytes k(n * width * 2), v(n * width * 2), q(n * s_.head_dim * 2);
  const bool bf16 = s_.q_dtype == DType::bf16;
  fill_random(k.as(), bf16, n, width, device_ids.as<uint64_t>(), s_.seed, 1.f, nullptr);
  fill_random(v.as(), bf16, n, width, device_ids.as<uint64_t>(), s_.seed + 1, 1.f, nullptr);
  RopeStoreKvArgs args = {};
  args.q = view(q.as<void>(), s_.q_dtype, n, 0);
  args.k = view(static_cast<const void*>(k.as()), s_.q_dtype, n, width);
  args.v = view(static_cast<const void*>(v.as()), s_.q_dtype, n, width);
  args.style = RopeStyle::none;
  args.slots = {device_slots.as<int32_t>(), static_cast<size_t>(n)};
  args.kv = kv_;
  AppendLaunch launch = {args};
  if (s_.fp8_scales) {
    launch.k_scales = scales_.as<float>();
    launch.v_scales = scales_.as<float>() + s_.kv_heads;
  }
  rope_store_kv(launch, {});
  CUDA_CHECK(cudaDeviceSynchronize());
}

void DecodeCase::make_plan() {
  const int32_t max_q = *std::max_element(s_.q_lens.begin(), s_.q_lens.end());
  DecodePlanInput in;
  in.cu_q_lens = cu_q_lens_;
  in.kv_lens = s_.kv_lens;
  in.shared = s_.shared;
  in.kv_heads = s_.kv_heads;
  in.group = s_.num_heads / s_.kv_heads;
  in.window = s_.window;
  in.columns = s_.columns > 0 ? s_.columns : decode_columns(s_.dtype, s_.head_dim, in.group, max_q);
  in.full_grid = decode_full_grid(s_.dtype, s_.head_dim, in.columns, 132);
  plan_ = plan_decode(in);
  s_.columns = in.columns;
  plan_shape_ =
      decode_plan_shape(in,
                        static_cast<int32_t>(s_.kv_lens.size()),
                        max_q,
                        std::accumulate(s_.kv_lens.begin(), s_.kv_lens.end(), int64_t{0}));
  std::vector<std::byte> bytes(plan_shape_.num_bytes());
  write_plan(plan_, plan_shape_, bytes);
  device_plan_ = to_device<std::byte>(bytes);
  workspace_ = DeviceBytes(plan_shape_.workspace_bytes(s_.num_heads, s_.head_dim));
}

void DecodeCase::run(cudaStream_t stream, DecodeTuning tuning, EarlyLoads early) {
  AttentionBatch batch;
  batch.block_table = {device_table_.as<int32_t>(), table_.size()};
  batch.max_blocks = max_blocks_;
  const int64_t width = int64_t{s_.num_heads} * s_.head_dim;
  const AttentionArgs args = {
      .q = view(static_cast<const void*>(q_.as()), s_.q_dtype, T_, width),
      .kv = kv_,
      .batch = batch,
      .num_heads = s_.num_heads,
      .scale = 1.f / std::sqrt(float(s_.head_dim)),
      .window = s_.window,
      .softcap = s_.softcap,
      .sinks = s_.sinks ? view(static_cast<const void*>(sinks_.as()), DType::f32, 1, s_.num_heads)
                        : ConstTensorView(),
      .out = view(out_.as<void>(), s_.q_dtype, T_, width),
      .log_sum_exp = view(sums_.as<void>(), DType::f32, T_, s_.num_heads)};
  DecodeLaunch launch{.args = args};
  launch.plan = device_plan_.as();
  launch.shape = plan_shape_;
  launch.workspace = workspace_.as();
  launch.num_work = plan_.header.num_items * s_.kv_heads;
  launch.max_parts_per_row = plan_.max_parts_per_row;
  launch.chunks_per_part = plan_.header.chunks_per_part;
  launch.max_sections_per_row = plan_.max_sections_per_row;
  launch.columns = s_.columns;
  launch.early_loads = early;
  launch.tuning = tuning;
  if (s_.fp8_scales) {
    launch.k_scales = scales_.as<float>();
    launch.v_scales = scales_.as<float>() + s_.kv_heads;
  }
  decode_attention(launch, {.stream = stream});
}

void DecodeCase::poison() {
  CUDA_CHECK(cudaMemset(out_.as(), 0xFF, int64_t{T_} * s_.num_heads * s_.head_dim * 2));
  CUDA_CHECK(cudaMemset(sums_.as(), 0xFF, int64_t{T_} * s_.num_heads * 4));
  CUDA_CHECK(
      cudaMemset(workspace_.as(), 0xFF, plan_shape_.workspace_bytes(s_.num_heads, s_.head_dim)));
}

std::vector<uint16_t> DecodeCase::output(DecodeTuning tuning) {
  poison();
  run(nullptr, tuning);
  CUDA_CHECK(cudaDeviceSynchronize());
  return last_output();
}

std::vector<uint16_t> DecodeCase::last_output() {
  last_.resize(int64_t{T_} * s_.num_heads * s_.head_dim);
  CUDA_CHECK(cudaMemcpy(last_.data(), out_.as(), last_.size() * 2, cudaMemcpyDeviceToHost));
  return last_;
}

CaseError DecodeCase::error() {
  const int32_t H = s_.num_heads, D = s_.head_dim;
  std::vector<int32_t> rows;
  for (const DecodeRow& row : plan_.rows) {
    int32_t seq = 0;
    while (cu_q_lens_[seq + 1] <= row.token) seq++;
    rows.insert(rows.end(), {seq, row.position, row.first_key});
  }
  DeviceBytes device_rows = to_device<int32_t>(rows);
  const int64_t n = int64_t{T_} * H, max_keys = int64_t{max_blocks_} * s_.block_size;
  DeviceBytes scores(n * max_keys * 8), out(n * D * 8), sums(n * 8);
  ReferenceParams p = {};
  p.kv = reinterpret_cast<const uint8_t*>(kv_.base);
  p.q = q_.as<void>();
  p.sinks = s_.sinks ? sinks_.as<float>() : nullptr;
  p.k_scales = s_.fp8_scales ? scales_.as<float>() : nullptr;
  p.v_scales = s_.fp8_scales ? scales_.as<float>() + s_.kv_heads : nullptr;
  p.block_table = device_table_.as<int32_t>();
  p.rows = device_rows.as<int32_t>();
  p.scores = scores.as<double>();
  p.out = out.as<double>();
  p.log_sum_exp = sums.as<double>();
  p.block_bytes = kv_.block_bytes();
  p.head_bytes = static_cast<int32_t>(kv_.format.head_bytes());
  p.v_offset = static_cast<int32_t>(kv_.format.v_offset());
  p.k_scales_offset = static_cast<int32_t>(kv_.format.k_scales_offset());
  p.v_scales_offset = static_cast<int32_t>(kv_.format.v_scales_offset());
  p.max_blocks = max_blocks_;
  p.block_size = s_.block_size;
  p.num_heads = H;
  p.group = H / s_.kv_heads;
  p.head_dim = D;
  p.max_keys = static_cast<int32_t>(max_keys);
  p.scale = 1.f / std::sqrt(float(D));
  p.softcap = s_.softcap;
  p.format = cuda_format(s_.dtype);
  p.q_is_bf16 = s_.q_dtype == DType::bf16;
  launch_reference(p, T_, nullptr);
  CUDA_CHECK(cudaDeviceSynchronize());
  std::vector<double> want(n * D), want_sums(n);
  std::vector<float> got_sums(n);
  CUDA_CHECK(cudaMemcpy(want.data(), out.as(), n * D * 8, cudaMemcpyDeviceToHost));
  CUDA_CHECK(cudaMemcpy(want_sums.data(), sums.as(), n * 8, cudaMemcpyDeviceToHost));
  CUDA_CHECK(cudaMemcpy(got_sums.data(), sums_.as(), n * 4, cudaMemcpyDeviceToHost));
  return compare_rows(last_, p.q_is_bf16 ? RowBits::bf16 : RowBits::f16, want, got_sums, want_sums);
}

}  // namespace pagoda::cuda
