#include "backend/cuda/check/append_check.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "backend/cuda/append.h"
#include "backend/cuda/check/decode_case.h"
#include "backend/cuda/check/reference_kernels.h"
#include "backend/cuda/format.h"
#include "base/half.h"

namespace pagoda::cuda {

namespace {

constexpr int32_t T = 37, H = 6, KH = 2, S = 32;

// Host and device sides of one append.
struct Problem {
  KvDType dtype;
  int32_t D, R;  // head size, dims that rotate
  RopeStyle style;
  int32_t width() const { return (H + 2 * KH) * D; }
  std::vector<uint16_t> in;  // [T, Q | K | V] bf16
  std::vector<float> norm, angles;
  std::vector<int32_t> slots;
};

Problem make_problem(KvDType dtype, int32_t D, RopeStyle style) {
  Problem p = {dtype, D, style == RopeStyle::none ? 0 : D / 2, style, {}, {}, {}, {}};
  for (int32_t d = 0; d < D; d++) p.norm.push_back(0.5f + 0.01f * float(d));
  for (int32_t t = 0; t < T; t++)
    for (int32_t i = 0; i < p.R / 2; i++) {
      p.angles.push_back(std::cos(0.1f * float(t * (i + 1))));
      p.angles.push_back(std::sin(0.1f * float(t * (i + 1))));
    }
  for (int32_t t = 0; t < T; t++) p.slots.push_back(t == 5 ? -1 : (T - t) * 7 % (4 * S));
  return p;
}

// Row `head` of [Q | K | V] of token t in float64, normalised and rotated.
std::vector<double> wanted(const Problem& p, int32_t t, int32_t head) {
  std::vector<double> x(p.D);
  double sum = 0;
  for (int32_t d = 0; d < p.D; d++) {
    x[d] = bf16_to_f32(p.in[t * p.width() + head * p.D + d]);
    sum += x[d] * x[d];
  }
  if (head >= H + KH || p.style == RopeStyle::none) return x;
  for (int32_t d = 0; d < p.D; d++) x[d] *= p.norm[d] / std::sqrt(sum / p.D + 1e-6);
  for (int32_t i = 0; i < p.R / 2; i++) {
    const bool halves = p.style == RopeStyle::half_split;
    const int32_t a = halves ? i : 2 * i, b = halves ? i + p.R / 2 : 2 * i + 1;
    const double c = p.angles[t * p.R + 2 * i], s = p.angles[t * p.R + 2 * i + 1];
    const double u = x[a], v = x[b];
    x[a] = u * c - v * s, x[b] = u * s + v * c;
  }
  return x;
}

struct Result {
  std::vector<float> stored;  // [T, KH, 2, D] of the tokens' slots
  std::vector<uint16_t> out;  // [T, Q | K | V]
};

Result run(const Problem& p, const DeviceBytes& qkv) {
  const std::vector<float> scales(KH, 0.02f);
  std::vector<int64_t> read;
  for (int32_t slot : p.slots) read.push_back(std::max(0, slot));
  KvView kv{nullptr, 4, KH, {p.dtype, S, p.D, p.D}};
  const DeviceBytes pool(kv.num_blocks * kv.block_bytes()), norm = to_device<float>(p.norm);
  const DeviceBytes angles = to_device<float>(p.angles), slots = to_device<int32_t>(p.slots);
  const DeviceBytes fp8 = to_device<float>(scales), where = to_device<int64_t>(read);
  CUDA_CHECK(cudaMemset(pool.as(), 0xFF, kv.num_blocks * kv.block_bytes()));
  kv.base = pool.as();
  const TensorView all(qkv.as(), DType::bf16, {T, p.width()});
  RopeStoreKvArgs args = {};
  args.q = all.slice_cols(0, H * p.D);
  args.k = all.slice_cols(H * p.D, KH * p.D);
  args.v = all.slice_cols((H + KH) * p.D, KH * p.D);
  args.num_heads = H;
  const ConstTensorView weight(norm.as(), DType::f32, {1, p.D});
  if (p.style != RopeStyle::none) args.q_norm = weight, args.k_norm = weight;
  args.style = p.style;
  if (p.R > 0) args.angles = ConstTensorView(angles.as(), DType::f32, {T, p.R / 2, 2});
  args.slots = {slots.as<int32_t>(), p.slots.size()};
  args.kv = kv;
  const float* scale = p.dtype == KvDType::fp8 ? fp8.as<float>() : nullptr;
  rope_store_kv({args, scale, scale}, {});
  Result result = {std::vector<float>(T * KH * 2 * p.D), std::vector<uint16_t>(p.in.size())};
  const DeviceBytes stored(static_cast<int64_t>(result.stored.size()) * 4);
  ReadParams r = {};
  r.kv = pool.as<uint8_t>();
  r.slots = where.as<int64_t>();
  r.out = stored.as<float>();
  r.k_scales = r.v_scales = scale;
  r.n = T;
  r.block_bytes = kv.block_bytes();
  r.head_bytes = static_cast<int32_t>(kv.format.head_bytes());
  r.v_offset = static_cast<int32_t>(kv.format.v_offset());
  r.k_scales_offset = static_cast<int32_t>(kv.format.k_scales_offset());
  r.v_scales_offset = static_cast<int32_t>(kv.format.v_scales_offset());
  r.block_size = S, r.kv_heads = KH, r.head_dim = p.D;
  r.format = cuda_format(p.dtype);
  launch_read(r, nullptr);
  CUDA_CHECK(cudaDeviceSynchronize());
  CUDA_CHECK(cudaMemcpy(
      result.stored.data(), stored.as(), result.stored.size() * 4, cudaMemcpyDeviceToHost));
  CUDA_CHECK(
      cudaMemcpy(result.out.data(), qkv.as(), result.out.size() * 2, cudaMemcpyDeviceToHost));
  return result;
}

}  // namespace

AppendError append_error(KvDType dtype, int32_t head_dim, RopeStyle style) {
  Problem p = make_problem(dtype, head_dim, style);
  p.in.resize(T * p.width());
  DeviceBytes qkv(static_cast<int64_t>(p.in.size()) * 2);
  fill_random(qkv.as(), true, T, p.width(), nullptr, 9, 2.f, nullptr);
  CUDA_CHECK(cudaMemcpy(p.in.data(), qkv.as(), p.in.size() * 2, cudaMemcpyDeviceToHost));
  const Result got = run(p, qkv);
  AppendError error;
  for (int32_t t = 0; t < T; t++)
    for (int32_t head = 0; head < H + 2 * KH; head++) {
      if (head >= H && p.slots[t] < 0) continue;
      const std::vector<double> want = wanted(p, t, head);
      const int32_t row = ((t * KH + (head - H) % KH) * 2 + (head >= H + KH)) * p.D;
      double norm = 0, wrong = 0;
      for (int32_t d = 0; d < p.D; d++) {
        const double x =
            head >= H ? got.stored[row + d] : bf16_to_f32(got.out[t * p.width() + head * p.D + d]);
        norm += want[d] * want[d], wrong += (x - want[d]) * (x - want[d]);
      }
      double& worst = head >= H ? error.stored : error.q;
      const double e = std::sqrt(wrong / norm);
      if (!(e <= worst)) worst = e;
    }
  return error;
}

}  // namespace pagoda::cuda
