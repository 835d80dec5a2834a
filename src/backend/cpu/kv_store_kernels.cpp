// Rotation of a head, and the way of its keys and values into a page and back.
//
// rotate: x [D] f32 in place; RMS norm first where the model has one (Gemma 3), then rotary
// embedding of the first rotary_dim columns (Su et al. 2021). store: k, v [D] f32 -> one slot, in
// the order of kv_sources.h and the formats of backend/kv_format.h. One thread owns a page while it
// writes (int4 shares bytes between tokens). Everything is a function of the one token alone.
// Must equal backend/reference's rope_store_kv.
#include <math.h>
#include <string.h>

#include "backend/cpu/attention_kernels.h"
#include "backend/cpu/kv_page.h"

namespace pagoda::cpu::PAGODA_ISA {
namespace {

void norm_head(const RotaryJob& job, float* x) {
  Lanes squares = set_all(0.f);
  for (int d = 0; d < job.dim; d += 16) squares = fma(load(x + d), load(x + d), squares);
  const float mean = sum_of(squares) / static_cast<float>(job.dim);
  const Lanes inverse = set_all(1.f / sqrtf(mean + job.epsilon));
  for (int d = 0; d < job.dim; d += 16) store(x + d, load(x + d) * inverse * load(job.norm + d));
}

void rotate(const RotaryJob& job, float* x, const float* angles) {
  if (job.norm) norm_head(job, x);
  const int half = job.rotary_dim / 2;
  if (job.style == RotaryStyle::half_split) {
    float *low = x, *high = x + half;
    for (int i = 0; i < half; i++) {
      const float a = low[i], b = high[i], cos = angles[2 * i], sin = angles[2 * i + 1];
      low[i] = a * cos - b * sin;
      high[i] = b * cos + a * sin;
    }
  } else if (job.style == RotaryStyle::interleaved) {
    for (int i = 0; i < half; i++) {
      const float a = x[2 * i], b = x[2 * i + 1], cos = angles[2 * i], sin = angles[2 * i + 1];
      x[2 * i] = a * cos - b * sin;
      x[2 * i + 1] = b * cos + a * sin;
    }
  }
}

uint32_t bf16_of(float x) {
  uint32_t u;
  memcpy(&u, &x, 4);
  const uint32_t rounded = (u + 0x7fff + ((u >> 16) & 1)) >> 16, quiet = (u >> 16) | 0x40;
  return (u & 0x7fffffff) > 0x7f800000 ? quiet : rounded;
}

// f16 of x, kept finite; returns what it reads back as.
float store_f16(std::byte* to, float x) {
  const Lanes wide = min(max(set_all(x), set_all(-65504.f)), set_all(65504.f));
  alignas(64) uint16_t bits[16];
  alignas(64) float read[16];
  to_f16(bits, wide);
  memcpy(to, bits, 2);
  store(read, from_f16(reinterpret_cast<const std::byte*>(bits)));
  return read[0];
}

Lanes clamped(Lanes x, float low, float high) {
  return min(max(x, set_all(low)), set_all(high));
}

// codes [D]; the scale goes to scales[token].
void encode_int8(int dim, const float* x, std::byte* scales, int token, int32_t* codes) {
  Lanes top = set_all(0.f);
  for (int d = 0; d < dim; d += 16) top = max(top, abs(load(x + d)));
  const float scale = store_f16(scales + 2 * token, max_of(top) / 127.f);
  for (int d = 0; d < dim; d += 16) {
    if (scale > 0.f)
      to_int32(codes + d, clamped(load(x + d) / set_all(scale), -127.f, 127.f));
    else
      memset(codes + d, 0, 64);
  }
}

// Per group of 64 dims: scales [group][scale, zero][16 tokens].
void encode_int4(int dim, const float* x, std::byte* scales, int token, int32_t* codes) {
  for (int begin = 0; begin < dim; begin += kGroupDims, scales += 64) {
    const int end = begin + kGroupDims < dim ? begin + kGroupDims : dim;
    Lanes high = load(x + begin), negative_low = set_all(0.f) - high;
    for (int d = begin + 16; d < end; d += 16) {
      high = max(high, load(x + d));
      negative_low = max(negative_low, set_all(0.f) - load(x + d));
    }
    const float low = -max_of(negative_low);
    const float scale = store_f16(scales + 2 * token, (max_of(high) - low) / 15.f);
    const float zero = store_f16(scales + 32 + 2 * token, low);
    for (int d = begin; d < end; d += 16) {
      if (scale > 0.f)
        to_int32(codes + d, clamped((load(x + d) - set_all(zero)) / set_all(scale), 0.f, 15.f));
      else
        memset(codes + d, 0, 64);
    }
  }
}

void store_plain(const KvPages& kv,
                 std::byte* k_page,
                 std::byte* v_page,
                 int t,
                 const float* k,
                 const float* v) {
  const int dim = kv.dim;
  if (kv.code == KvCode::f32) {
    float *to_k = reinterpret_cast<float*>(k_page), *to_v = reinterpret_cast<float*>(v_page);
    for (int d = 0; d < dim; d++) to_k[d * 16 + t] = k[d];
    memcpy(to_v + int64_t{t} * dim, v, sizeof(float) * dim);
    return;
  }
  auto *to_k = reinterpret_cast<uint16_t*>(k_page), *to_v = reinterpret_cast<uint16_t*>(v_page);
  if (kv.code == KvCode::f16) {
    alignas(64) uint16_t bits[16];
    for (int d = 0; d < dim; d += 16) {
      to_f16(bits, load(k + d));
      for (int i = 0; i < 16; i++) to_k[(d + i) * 16 + t] = bits[i];
      to_f16(to_v + int64_t{t} * dim + d, load(v + d));
    }
    return;
  }
  alignas(64) uint32_t pairs[kMaxHeadDim / 2];
  for (int d = 0; d < dim; d += 2) pairs[d / 2] = bf16_of(k[d]) | bf16_of(k[d + 1]) << 16;
  for (int i = 0; i < dim / 2; i++) reinterpret_cast<uint32_t*>(k_page)[i * 16 + t] = pairs[i];
  to_v += int64_t{t / 2} * dim * 2 + t % 2;
  for (int d = 0; d < dim; d++) to_v[2 * d] = static_cast<uint16_t>(bf16_of(v[d]));
}

void put_nibbles(uint8_t* cell, int shift, int32_t n) {
  *cell = static_cast<uint8_t>((*cell & ~(15 << shift)) | n << shift);
}

#ifdef __AVX512BF16__
uint8_t sign_and_magnitude(int32_t n) {
  return static_cast<uint8_t>(n < 0 ? 128 - n : n);
}

// Units of 4 dims (K) or 4 tokens (V): two pairs, in 8-byte turns.
void put_int8(
    uint8_t* k_page, uint8_t* v_page, int dim, int t, const int32_t* k, const int32_t* v) {
  uint8_t* to = k_page + t / 4 * 16 + t % 4 * 2;
  for (int d = 0; d < dim; d += 4, to += 64) {
    to[0] = sign_and_magnitude(k[d]);
    to[1] = sign_and_magnitude(k[d + 1]);
    to[8] = sign_and_magnitude(k[d + 2]);
    to[9] = sign_and_magnitude(k[d + 3]);
  }
  to = v_page + int64_t{t / 4} * dim * 4 + t / 2 % 2 * 8 + t % 2;
  for (int d = 0; d < dim; d += 4, to += 16)
    for (int i = 0; i < 4; i++) to[2 * i] = sign_and_magnitude(v[d + i]);
}

// Units of 8 dims (K) or 8 tokens (V): nibble j of a 16-bit word is its half of pair j.
void put_int4(
    uint8_t* k_page, uint8_t* v_page, int dim, int t, const int32_t* k, const int32_t* v) {
  uint8_t* to = k_page + t * 4;
  for (int d = 0; d < dim; d += 8, to += 64) {
    uint32_t words = 0;
    for (int i = 0; i < 8; i++)
      words |= static_cast<uint32_t>(k[d + i]) << (i % 2 * 16 + i / 2 * 4);
    memcpy(to, &words, 4);
  }
  to = v_page + int64_t{t / 8} * dim * 4 + t % 2 * 2 + t / 2 % 4 / 2;
  for (int d = 0; d < dim; d++) put_nibbles(to + 4 * d, t / 2 % 2 * 4, v[d]);
}
#else
void put_int8(
    uint8_t* k_page, uint8_t* v_page, int dim, int t, const int32_t* k, const int32_t* v) {
  for (int d = 0; d < dim; d++) k_page[d * 16 + t] = static_cast<uint8_t>(k[d]);
  for (int d = 0; d < dim; d++) v_page[int64_t{t} * dim + d] = static_cast<uint8_t>(v[d]);
}
void put_int4(
    uint8_t* k_page, uint8_t* v_page, int dim, int t, const int32_t* k, const int32_t* v) {
  for (int d = 0; d < dim; d += 2)
    k_page[d / 2 * 16 + t] = static_cast<uint8_t>(k[d] | k[d + 1] << 4);
  for (int d = 0; d < dim; d++) put_nibbles(v_page + int64_t{t / 2} * dim + d, t % 2 * 4, v[d]);
}
#endif

struct Slot {
  int64_t data;    // offset of the page within K, or V
  int64_t scales;  // and of its scales
  int token;       // within the page
};
Slot find_slot(const KvPages& kv, int token) {
  const int page = token / kPageTokens;
  return {int64_t{page} * kv.page_bytes, int64_t{page} * kv.scale_bytes, token % kPageTokens};
}

void store_token(const KvPages& kv, std::byte* head, int token, const float* k, const float* v) {
  const Slot slot = find_slot(kv, token);
  std::byte *k_page = head + slot.data, *v_page = head + kv.v_offset + slot.data;
  if (kv.groups == 0) return store_plain(kv, k_page, v_page, slot.token, k, v);
  alignas(64) int32_t k_codes[kMaxHeadDim], v_codes[kMaxHeadDim];
  auto *k_bytes = reinterpret_cast<uint8_t*>(k_page), *v_bytes = reinterpret_cast<uint8_t*>(v_page);
  std::byte* k_scales = head + kv.k_scales_offset + slot.scales;
  std::byte* v_scales = head + kv.v_scales_offset + slot.scales;
  if (kv.code == KvCode::int8) {
    encode_int8(kv.dim, k, k_scales, slot.token, k_codes);
    encode_int8(kv.dim, v, v_scales, slot.token, v_codes);
    put_int8(k_bytes, v_bytes, kv.dim, slot.token, k_codes, v_codes);
  } else {
    encode_int4(kv.dim, k, k_scales, slot.token, k_codes);
    encode_int4(kv.dim, v, v_scales, slot.token, v_codes);
    put_int4(k_bytes, v_bytes, kv.dim, slot.token, k_codes, v_codes);
  }
}

void load_token(const KvPages& kv, const std::byte* head, int token, float* k, float* v) {
  const Slot slot = find_slot(kv, token);
  alignas(64) float wide[kPageTokens * kMaxHeadDim];
  widen_k(kv, head + slot.data, head + kv.k_scales_offset + slot.scales, wide);
  for (int d = 0; d < kv.dim; d++) k[d] = wide[16 * d + slot.token];
  widen_v(kv, head + kv.v_offset + slot.data, head + kv.v_scales_offset + slot.scales, wide);
  memcpy(v, wide + int64_t{slot.token} * kv.dim, sizeof(float) * kv.dim);
}

}  // namespace

void fill_store(AttentionKernels& kernels) {
  kernels.rotate = rotate;
  kernels.store = store_token;
  kernels.load = load_token;
}

}  // namespace pagoda::cpu::PAGODA_ISA
