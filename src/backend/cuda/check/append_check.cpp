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

AppendError append_error(KvDType dtype, int32_t D, RopeStyle style) {
  const bool norms = style != RopeStyle::none;
  const int32_t T = 37, H = 6, KH = 2, R = style == RopeStyle::none ? 0 : D / 2, S = 32;
  const int32_t width = (H + 2 * KH) * D;  // one QKV product
  DeviceBytes qkv(int64_t{T} * width * 2);
  fill_random(qkv.as(), true, T, width, nullptr, 9, 2.f, nullptr);
  std::vector<uint16_t> in(T * width), out(T * width);
  CUDA_CHECK(cudaMemcpy(in.data(), qkv.as(), in.size() * 2, cudaMemcpyDeviceToHost));
  std::vector<float> norm(D), angles(T * R), scales(KH, 0.02f);
  for (int32_t d = 0; d < D; d++) norm[d] = 0.5f + 0.01f * float(d);
  for (int32_t t = 0; t < T; t++)
    for (int32_t i = 0; i < R / 2; i++) {
      angles[t * R + 2 * i] = std::cos(0.1f * float(t * (i + 1)));
      angles[t * R + 2 * i + 1] = std::sin(0.1f * float(t * (i + 1)));
    }
  std::vector<int32_t> slots(T);
  std::vector<int64_t> read;
  for (int32_t t = 0; t < T; t++) {
    slots[t] = t == 5 ? -1 : (T - t) * 7 % (4 * S);
    read.push_back(std::max(0, slots[t]));
  }
  KvView kv{nullptr, 4, KH, {dtype, S, D, D}};
  DeviceBytes pool(kv.num_blocks * kv.block_bytes()), dn = to_device<float>(norm);
  DeviceBytes da = to_device<float>(angles), ds = to_device<int32_t>(slots);
  DeviceBytes dscales = to_device<float>(scales), dread = to_device<int64_t>(read);
  CUDA_CHECK(cudaMemset(pool.as(), 0xFF, kv.num_blocks * kv.block_bytes()));
  kv.base = pool.as();
  const TensorView all(qkv.as(), DType::bf16, {T, width});
  RopeStoreKvArgs args = {};
  args.q = all.slice_cols(0, H * D);
  args.k = all.slice_cols(H * D, KH * D);
  args.v = all.slice_cols((H + KH) * D, KH * D);
  args.num_heads = H;
  const ConstTensorView weight(dn.as(), DType::f32, {1, D});
  if (norms) args.q_norm = weight, args.k_norm = weight;
  args.style = style;
  if (R > 0) args.angles = ConstTensorView(da.as(), DType::f32, {T, R / 2, 2});
  args.slots = {ds.as<int32_t>(), static_cast<size_t>(T)};
  args.kv = kv;
  const float* fp8 = dtype == KvDType::fp8 ? dscales.as<float>() : nullptr;
  rope_store_kv({args, fp8, fp8}, {});
  DeviceBytes stored(int64_t{T} * KH * 2 * D * 4);
  ReadParams p = {pool.as<uint8_t>(),
                  dread.as<int64_t>(),
                  stored.as<float>(),
                  fp8,
                  fp8,
                  T,
                  kv.block_bytes(),
                  static_cast<int32_t>(kv.format.head_bytes()),
                  static_cast<int32_t>(kv.format.v_offset()),
                  static_cast<int32_t>(kv.format.k_scales_offset()),
                  static_cast<int32_t>(kv.format.v_scales_offset()),
                  S,
                  KH,
                  D,
                  cuda_format(dtype)};
  launch_read(p, nullptr);
  CUDA_CHECK(cudaDeviceSynchronize());
  std::vector<float> got(T * KH * 2 * D);
  CUDA_CHECK(cudaMemcpy(got.data(), stored.as(), got.size() * 4, cudaMemcpyDeviceToHost));
  CUDA_CHECK(cudaMemcpy(out.data(), qkv.as(), out.size() * 2, cudaMemcpyDeviceToHost));

  const auto want_row = [&](int32_t t, int32_t head, bool rotated) {
    std::vector<double> x(D);
    double sum = 0;
    for (int32_t d = 0; d < D; d++) {
      x[d] = bf16_to_f32(in[t * width + head * D + d]);
      sum += x[d] * x[d];
    }
    if (!rotated) return x;
    if (norms)
      for (int32_t d = 0; d < D; d++) x[d] *= norm[d] / std::sqrt(sum / D + 1e-6);
    for (int32_t i = 0; i < R / 2; i++) {
      const int32_t a = style == RopeStyle::half_split ? i : 2 * i;
      const int32_t b = style == RopeStyle::half_split ? i + R / 2 : 2 * i + 1;
      const double c = angles[t * R + 2 * i], s = angles[t * R + 2 * i + 1], u = x[a], v = x[b];
      x[a] = u * c - v * s, x[b] = u * s + v * c;
    }
    return x;
  };
  AppendError error;
  for (int32_t t = 0; t < T; t++)
    for (int32_t head = 0; head < H + 2 * KH; head++) {
      const std::vector<double> want = want_row(t, head, head < H + KH);
      const bool is_v = head >= H + KH;
      const float* have = head < H ? nullptr : &got[((t * KH + (head - H) % KH) * 2 + is_v) * D];
      double norm2 = 0, wrong = 0;
      for (int32_t d = 0; d < D; d++) {
        const double x = have ? have[d] : bf16_to_f32(out[t * width + head * D + d]);
        norm2 += want[d] * want[d], wrong += (x - want[d]) * (x - want[d]);
      }
      if (have && slots[t] < 0) continue;
      double& w = have ? error.stored : error.q;
      const double e = std::sqrt(wrong / norm2);
      if (!(e <= w)) w = e;
    }
  return error;
}

}  // namespace pagoda::cuda
