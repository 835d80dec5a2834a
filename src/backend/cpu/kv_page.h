// One page of K or V as plain f32, whatever its format: for the naive algorithm and for inspection.
#pragma once

#include "backend/cpu/kv_sources.h"

namespace pagoda::cpu::PAGODA_ISA {

PG_INLINE void store_wide(float* to, int64_t, Lanes x) {
  store(to, x);
}
#ifdef __AVX512BF16__
PG_INLINE void store_wide(float* to, int64_t next_step, Pairs x) {
  store(to, low_bf16({(__m512i)x.v}));
  store(to + next_step, high_bf16({(__m512i)x.v}));
}
#endif

// Codes as floats: K [D][16 tokens] (vectors 1), V [16 tokens][D] (vectors D / 16).
template <class Source>
void widen_codes(const std::byte* page, int page_bytes, int vectors, float* out) {
  const Source source;
  constexpr int kSteps = Source::kSteps;
  const int units = page_bytes / Source::kUnitBytes;
  const int64_t step_floats = 16 * int64_t{vectors};
  for (int n = 0; n < units; n++) {
    const auto x = Source::load_unit(page + int64_t{n} * Source::kUnitBytes);
    float* to = out + n / vectors * kSteps * kDepth<Source> * step_floats + n % vectors * 16;
#pragma GCC unroll 4
    for (int j = 0; j < kSteps; j++)
      store_wide(to + j * kDepth<Source> * step_floats, step_floats, source.step(x, j));
  }
}

inline void widen_stored(
    KvCode code, const std::byte* page, int page_bytes, int vectors, float* out) {
  switch (code) {
    case KvCode::f32:
      return widen_codes<F32Source>(page, page_bytes, vectors, out);
    case KvCode::f16:
      return widen_codes<F16Source>(page, page_bytes, vectors, out);
    case KvCode::bf16:
      return widen_codes<Bf16Best>(page, page_bytes, vectors, out);
    case KvCode::int8:
      return widen_codes<Int8Best>(page, page_bytes, vectors, out);
    case KvCode::int4:
      return widen_codes<Int4Best>(page, page_bytes, vectors, out);
  }
}

// K of a page: out [D][16]. `scales`: the page's own.
inline void widen_k(const KvPages& kv, const std::byte* page, const std::byte* scales, float* out) {
  widen_stored(kv.code, page, kv.page_bytes, 1, out);
  if (kv.groups == 0) return;
  for (int d = 0; d < kv.dim; d++) {
    const bool affine = kv.code == KvCode::int4;
    const std::byte* at = scales + (affine ? d / kGroupDims * 64 : 0);
    const Lanes scale = from_f16(at), n = load(out + 16 * d);
    store(out + 16 * d, affine ? fma(scale, n + set_all(8.f), from_f16(at + 32)) : n * scale);
  }
}

// V of a page: out [16][D].
inline void widen_v(const KvPages& kv, const std::byte* page, const std::byte* scales, float* out) {
  widen_stored(kv.code, page, kv.page_bytes, kv.dim / 16, out);
  if (kv.groups == 0) return;
  const bool affine = kv.code == KvCode::int4;
  alignas(64) float scale[kPageTokens], zero[kPageTokens];
  for (int d = 0; d < kv.dim; d += 16) {
    const std::byte* at = scales + (affine ? d / kGroupDims * 64 : 0);
    store(scale, from_f16(at));
    if (affine) store(zero, from_f16(at + 32));
    for (int t = 0; t < kPageTokens; t++) {
      float* x = out + int64_t{t} * kv.dim + d;
      store(x,
            affine ? fma(set_all(scale[t]), load(x) + set_all(8.f), set_all(zero[t]))
                   : load(x) * set_all(scale[t]));
    }
  }
}

}  // namespace pagoda::cpu::PAGODA_ISA
