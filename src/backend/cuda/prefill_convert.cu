// prefill_convert: a 16-bit copy of the keys and values that a prefill sees, from a quantised
// cache.
//   In: blocks of 128 keys of a sequence, the block table, KV blocks as in kv_layout.h. Out:
//   scratch blocks [num_blocks][KH][K | V] in the same order with rows of 16-bit numbers, each the
//   code's value rounded once; and the block table of the scratch. A block does one (scratch block,
//   KV head), a warp groups of 8 tokens of K and of V. Moves the codes once and writes 4 D bytes
//   for each token and head; about 3 FLOPs a number. Limits, checked by prefill.cpp: block size a
//   multiple of 8, D one of 64, 80, 96, 128, 192, 256. Must equal what the debug reader reads,
//   rounded; checked by check/prefill_check.cpp.
#include "backend/cuda/codes.cuh"
#include "backend/cuda/prefill_convert.h"
#include "backend/cuda/prefill_params.h"
#include "backend/cuda/ptx.cuh"

namespace pagoda::cuda {
namespace {

constexpr int kWarps = 8;
template <Format kFormat, int kDims>
constexpr int kCodeRow = kFormat == Format::int4 ? int4_row_bytes(kDims) : kDims;

template <Format kFormat>
__device__ __forceinline__ void load_codes(const uint8_t* from, uint32_t& x, uint32_t& y) {
  if constexpr (kFormat == Format::int4) {
    x = __ldg(reinterpret_cast<const unsigned int*>(from));
  } else {
    const uint2 both = __ldg(reinterpret_cast<const uint2*>(from));
    x = both.x, y = both.y;
  }
}

// {scale, zero} of a token and 64 dims; fp8: of the head.
template <Format kFormat, int kDims>
__device__ __forceinline__ float2 load_scale(const uint8_t* scales, int row, int unit) {
  const __half* of = reinterpret_cast<const __half*>(scales);
  if constexpr (kFormat == Format::int8) return {__half2float(of[row]), 0.f};
  constexpr int kGroups = (kDims + kScaleDims - 1) / kScaleDims;
  const int at = (row * kGroups + unit / 8) * 2;
  return {__half2float(of[at]), __half2float(of[at + 1])};
}

__device__ __forceinline__ uint32_t pack(float x, float y, bool is_bf16) {
  return is_bf16 ? pack16<true>(x, y) : pack16<false>(x, y);
}

// 8 tokens of K or V, of which num_rows are there.
template <Format kFormat, int kDims, KeyOrValue kWhich>
__device__ __forceinline__ void convert_group(const uint8_t* codes,
                                              const uint8_t* scales,
                                              float head_scale,
                                              uint8_t* out,
                                              int num_rows,
                                              bool is_bf16) {
  constexpr int kUnits = kDims / 8;
  constexpr int kSteps = (8 * kUnits + 31) / 32;
  const int lane = threadIdx.x % 32;
  uint32_t x[kSteps] = {}, y[kSteps] = {};
  float2 s[kSteps];
#pragma unroll
  for (int i = 0; i < kSteps; i++) {  // all loads before the first use
    const int flat = i * 32 + lane, row = flat / kUnits, unit = flat % kUnits;
    s[i] = {head_scale, 0.f};
    if (row >= num_rows) continue;
    load_codes<kFormat>(
        codes + byte_offset(kCodeRow<kFormat, kDims>, row, unit * kUnitCodeBytes<kFormat>),
        x[i],
        y[i]);
    if constexpr (kFormat != Format::fp8) s[i] = load_scale<kFormat, kDims>(scales, row, unit);
  }
#pragma unroll
  for (int i = 0; i < kSteps; i++) {
    const int flat = i * 32 + lane, row = flat / kUnits, unit = flat % kUnits;
    if (row >= num_rows) continue;
    const Half8 n = code_numbers<kFormat, kWhich>(x[i], y[i]);
    uint32_t w[4];
#pragma unroll
    for (int j = 0; j < 4; j++) {
      const float2 two = __half22float2(n.of[j]);
      w[j] = pack(fmaf(two.x, s[i].x, s[i].y), fmaf(two.y, s[i].x, s[i].y), is_bf16);
    }
    *reinterpret_cast<uint4*>(out + unit_offset(2 * kDims, row, unit)) = {w[0], w[1], w[2], w[3]};
  }
}

template <Format kFormat, int kDims>
__global__ void __launch_bounds__(kWarps * 32)
    prefill_convert_kernel(const __grid_constant__ PrefillConvertParams p) {
  const int at = blockIdx.x / p.kv_heads, head = blockIdx.x % p.kv_heads;
  const ScratchBlock block = p.blocks[at];
  pdl_wait();
  pdl_launch_next();
  if (block.num_keys == 0) return;
  if (head == 0 && threadIdx.x == 0)
    p.scratch_table[block.seq * p.table_width + block.first_key / kScratchBlockKeys] = at;
  constexpr int kGroupBytes = 16 * kDims, kScratchBytes = kScratchBlockKeys * 2 * kDims;
  uint8_t* out = p.scratch + (int64_t{at} * p.kv_heads + head) * 2 * kScratchBytes;
  const float k_scale = p.k_scales != nullptr ? p.k_scales[head] : 1.f;
  const float v_scale = p.v_scales != nullptr ? p.v_scales[head] : 1.f;
  constexpr int kScaleBytes =
      kFormat == Format::int8 ? 2 : 4 * ((kDims + kScaleDims - 1) / kScaleDims);
#pragma unroll
  for (int i = 0; i < kScratchBlockKeys / 8 / kWarps; i++) {
    const int group = i * kWarps + threadIdx.x / 32, num_rows = min(8, block.num_keys - group * 8);
    if (num_rows <= 0 || group * 8 + 8 <= block.num_skipped) continue;
    const int key = block.first_key + group * 8;
    const int64_t from = p.block_table[block.seq * p.max_blocks + key / p.block_size];
    const int row = key % p.block_size;
    const uint8_t* data = p.kv + from * p.block_bytes + int64_t{head} * p.head_bytes;
    convert_group<kFormat, kDims, KeyOrValue::key>(data + row * kCodeRow<kFormat, kDims>,
                                                   data + p.k_scales_offset + row * kScaleBytes,
                                                   k_scale,
                                                   out + group * kGroupBytes,
                                                   num_rows,
                                                   p.is_bf16);
    convert_group<kFormat, kDims, KeyOrValue::value>(
        data + p.v_offset + row * kCodeRow<kFormat, kDims>,
        data + p.v_scales_offset + row * kScaleBytes,
        v_scale,
        out + kScratchBytes + group * kGroupBytes,
        num_rows,
        p.is_bf16);
  }
}

template <Format kFormat>
void launch(const PrefillConvertParams& params, const LaunchOptions& options) {
  const Launch launch = {params.num_blocks * params.kv_heads, kWarps * 32, 0};
  const auto go = [&](auto kernel) { launch_kernel(kernel, launch, options, params); };
  switch (params.head_dim) {
    case 64:
      return go(prefill_convert_kernel<kFormat, 64>);
    case 80:
      return go(prefill_convert_kernel<kFormat, 80>);
    case 96:
      return go(prefill_convert_kernel<kFormat, 96>);
    case 128:
      return go(prefill_convert_kernel<kFormat, 128>);
    case 192:
      return go(prefill_convert_kernel<kFormat, 192>);
    default:
      return go(prefill_convert_kernel<kFormat, 256>);
  }
}

}  // namespace

void launch_prefill_convert(const PrefillConvertParams& params, const LaunchOptions& options) {
  switch (params.format) {
    case Format::int8:
      return launch<Format::int8>(params, options);
    case Format::int4:
      return launch<Format::int4>(params, options);
    default:
      return launch<Format::fp8>(params, options);
  }
}

}  // namespace pagoda::cuda
