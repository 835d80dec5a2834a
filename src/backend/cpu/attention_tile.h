// Attention of MR rows over one chunk of 256 keys: the arithmetic that every caller shares, so that
// a row's bits depend on neither the rows, the items nor the threads of the call.
//
//  1. A (row, chunk) pair gives one partial {m, l, o[D]}, a function of the row's query, its limits
//     and the stored bytes of the keys that it sees.
//  2. Score: q is scaled (by log2 e too, without a softcap) and rounded once, to f32 or bf16. One
//     f32 accumulator from +0, steps of dims in rising order. int8: x key scale, once. int4: one
//     accumulator per 64 dims; s = fma(scale, dot, s), s = fma(zero, sum of q, s), groups in order.
//  3. m: maximum over the visible keys, exact in any order. p = 2^(s - m); masked keys give +0,
//     and adding +0 or +0 x finite changes no sum: a tile may walk as far as its longest row.
//  4. l: 16 lanes x 2 (even and odd pages), keys in rising order, then one tree; before rounding.
//  5. P (int8, int4: p x V scale) is rounded to f32 or bf16; o[d]: one f32 accumulator from +0 over
//     the chunk's keys in rising order. int4's zeros: sum of p * zero, kept like l, added at the
//     end.
//  6. Partials fold from the left: M' = max(M, m), a = 2^(M - M'), b = 2^(m - M'),
//     L' = fma(l, b, L * a), O' = fma(o, b, O * a), from M = kFloor, L = 0, O = +0.
//
// 0 x Inf is NaN: bytes of a visible page that no token has written must be finite (blocks are
// zeroed when they are taken), and a token whose V is not finite spoils earlier rows of its tile.
// Must be compiled without contraction. Reference: backend/reference, attention.
#pragma once

#include "backend/cpu/kv_sources.h"

namespace pagoda::cpu::PAGODA_ISA {

#ifdef __AVX512F__
constexpr int kWidestTile = 12;
constexpr int score_pages(int rows) {
  return rows > 6 ? 2 : rows > 2 ? 4 : 8;
}
constexpr int value_vectors(int rows) {
  return rows > 6 ? 2 : 4;
}
#else
constexpr int kWidestTile = 6;
constexpr int score_pages(int rows) {
  return rows > 2 ? 1 : rows == 2 ? 2 : 4;
}
constexpr int value_vectors(int rows) {
  return rows > 2 ? 1 : rows == 2 ? 2 : 4;
}
#endif
constexpr int kFewRows = 8;  // items up to here widen keys in registers
// Narrow tiles wait for memory: each of their reads fetches the same place of the next chunk.
constexpr bool reads_fetch(int rows) {
  return rows < kWidestTile;
}

// Words of P that one page, and one row, take.
template <class Source>
constexpr int page_words() {
  return kPageTokens / (Source::kPairs ? 2 : 1);
}
template <class Source>
constexpr int row_words() {
  return kChunkPages * page_words<Source>();
}

struct TileQuery {
  const uint32_t* q;   // [D or D / 2][MR]
  const float* q_sum;  // [MR, kMaxGroups]
  int32_t dim;
  KvCode code;
  int32_t page_bytes;
};

// How a dot product of stored codes becomes a score: for int8 and int4.
template <int MR, int NZ>
PG_INLINE void apply_scales(const TileQuery& t,
                            const AttentionChunk& c,
                            int page,
                            int group,
                            const float* S,
                            Lanes (&s)[MR][NZ]) {
  if (t.code == KvCode::int8) {
#pragma GCC unroll 8
    for (int z = 0; z < NZ; z++) {
      const Lanes scale = load(&c.k_scale[0][kPageTokens * (page + z)]);
#pragma GCC unroll 12
      for (int r = 0; r < MR; r++) s[r][z] = s[r][z] * scale;
    }
  } else if (t.code == KvCode::int4) {
#pragma GCC unroll 8
    for (int z = 0; z < NZ; z++) {
      const int at = kPageTokens * (page + z);
      const Lanes scale = load(&c.k_scale[group][at]), zero = load(&c.k_zero[group][at]);
#pragma GCC unroll 12
      for (int r = 0; r < MR; r++) {
        const Lanes before = group ? load(S + r * kChunkTokens + at) : set_all(0.f);
        s[r][z] = fma(scale, s[r][z], before);
        s[r][z] = fma(zero, set_all(t.q_sum[r * kMaxGroups + group]), s[r][z]);
      }
    }
  }
}

// Scores of NZ pages to memory; complete ones (of all scale groups) count for the maxima.
template <int MR, int NZ>
PG_INLINE void store_scores(
    const Lanes (&s)[MR][NZ], int page, bool complete, float* S, float* best) {
#pragma GCC unroll 12
  for (int r = 0; r < MR; r++) {
    Lanes m = load(best + 16 * r);
#pragma GCC unroll 8
    for (int z = 0; z < NZ; z++) {
      store(S + r * kChunkTokens + kPageTokens * (page + z), s[r][z]);
      m = max(m, s[r][z]);
    }
    if (complete) store(best + 16 * r, m);
  }
}

// Where a wide tile fetches from while it computes: step `slot` of a chunk takes half a page (K or
// V of one page of the next chunk), a line with each unit that it reads.
struct FetchAhead {
  const std::byte* at;
  int64_t last;
};
PG_INLINE FetchAhead fetch_ahead(const TileQuery& t, const AttentionChunk& c, int slot) {
  const int page = slot / 2;
  if (page >= kChunkPages) return {reinterpret_cast<const std::byte*>(t.q), 0};
  return {slot % 2 ? c.next_v[page] : c.next_k[page], t.page_bytes - 64};
}

// S[r][key] for the chunk's visible pages, and per row 16 lanes of maxima over all that was
// computed.
template <class Source, int MR>
void scores(const TileQuery& t, const AttentionChunk& c, float* S, float* best) {
  constexpr int NZ = score_pages(MR), kSteps = Source::kSteps;
  const Source source;
  const int groups = t.code == KvCode::int4 ? (t.dim + kGroupDims - 1) / kGroupDims : 1;
  for (int r = 0; r < MR; r++) store(best + 16 * r, set_all(kFloor));
  for (int i = c.first_page / NZ * NZ; i < c.end_page; i += NZ) {
    const FetchAhead ahead = fetch_ahead(t, c, c.tiles_done * (kChunkPages / NZ) + i / NZ);
    const uint32_t* q = t.q;
    int64_t unit = 0, fetched = 0;
    for (int g = 0; g < groups; g++) {
      const int dims = groups == 1                           ? t.dim
                       : t.dim - g * kGroupDims < kGroupDims ? t.dim - g * kGroupDims
                                                             : kGroupDims;
      const int64_t end = unit + dims / (kSteps * kDepth<Source>);
      Lanes s[MR][NZ];
#pragma GCC unroll 12
      for (int r = 0; r < MR; r++)
#pragma GCC unroll 8
        for (int z = 0; z < NZ; z++) s[r][z] = set_all(0.f);
      for (; unit < end; unit++) {
        typename Source::Unit x[NZ];
#pragma GCC unroll 8
        for (int z = 0; z < NZ; z++) {
          x[z] = Source::load_unit(c.k[i + z] + unit * Source::kUnitBytes);
          if constexpr (reads_fetch(MR))
            _mm_prefetch(c.next_k[i + z] + unit * Source::kUnitBytes, _MM_HINT_T0);
        }
        if constexpr (!reads_fetch(MR)) {
          if (fetched <= ahead.last) _mm_prefetch(ahead.at + fetched, _MM_HINT_T0);
          fetched += 64;
        }
#pragma GCC unroll 4
        for (int j = 0; j < kSteps; j++, q += MR) {
          decltype(source.step(x[0], 0)) k[NZ];
#pragma GCC unroll 8
          for (int z = 0; z < NZ; z++) k[z] = source.step(x[z], j);
#pragma GCC unroll 12
          for (int r = 0; r < MR; r++)
#pragma GCC unroll 8
            for (int z = 0; z < NZ; z++) s[r][z] = multiply_add(s[r][z], k[z], q + r);
        }
      }
      apply_scales<MR, NZ>(t, c, i, g, S, s);
      store_scores<MR, NZ>(s, i, g == groups - 1, S, best);
    }
  }
}

// Softcap, and kMasked for keys outside [first, end) of the chunk; returns the maximum.
inline float limit_scores(const AttentionChunk& c, float* S, int first, int end, float softcap) {
  const Lanes inverse = set_all(softcap > 0 ? 1.f / softcap : 0.f);
  const Lanes high = set_all(softcap * kLog2E);
  Lanes best = set_all(kFloor);
  const int begin_page = c.first_page & ~1, end_page = (c.end_page + 1) & ~1;
  for (int page = begin_page; page < end_page; page++) {
    const int at = page * kPageTokens;
    Lanes x = load(S + at);
    if (softcap > 0) x = tanh_of(x * inverse) * high;
    const bool seen = first <= at && at + kPageTokens <= end;
    if (!seen) x = keep_range(x, at, first, end);
    if (!seen || softcap > 0) store(S + at, x);
    best = max(best, x);
  }
  return max_of(best);
}

#ifdef __AVX512BF16__
// P of two pages, as bf16.
PG_INLINE void store_weights(Bf16Dot, uint32_t* P, Lanes p0, Lanes p1) {
  _mm512_storeu_si512(P, (__m512i)_mm512_cvtne2ps_pbh(p1.v, p0.v));
}
PG_INLINE Lanes weight_of(Bf16Dot, Lanes t) {
  return exp2_rough(t);
}
#endif
PG_INLINE void store_weights(F32Source, uint32_t* P, Lanes p0, Lanes p1) {
  store(reinterpret_cast<float*>(P), p0);
  store(reinterpret_cast<float*>(P) + 16, p1);
}
PG_INLINE Lanes weight_of(F32Source, Lanes t) {
  return exp2_of(t);
}

// p = 2^(s - m) of one row: P (a copy per scale group, group_words apart), int4's sum of p * zero
// per group, and the sum l, returned.
template <class Wide>
float weights(const float* S,
              float m,
              const AttentionChunk& c,
              KvCode code,
              int groups,
              uint32_t* P,
              int64_t group_words,
              float* z_sum) {
  const Lanes mv = set_all(m);
  Lanes l0 = set_all(0.f), l1 = l0, z0[kMaxGroups], z1[kMaxGroups];
  for (int g = 0; g < kMaxGroups; g++) z0[g] = z1[g] = l0;
  for (int page = c.first_page & ~1; page < c.end_page; page += 2) {
    const int at = page * kPageTokens;
    uint32_t* to = P + page * page_words<Wide>();
    const Lanes p0 = weight_of(Wide{}, load(S + at) - mv);
    const Lanes p1 = weight_of(Wide{}, load(S + at + kPageTokens) - mv);
    l0 = l0 + p0;
    l1 = l1 + p1;
    if (groups == 0) store_weights(Wide{}, to, p0, p1);
    for (int g = 0; g < groups; g++) {
      store_weights(Wide{},
                    to + g * group_words,
                    p0 * load(&c.v_scale[g][at]),
                    p1 * load(&c.v_scale[g][at + kPageTokens]));
      if (code != KvCode::int4) continue;
      z0[g] = fma(p0, load(&c.v_zero[g][at]), z0[g]);
      z1[g] = fma(p1, load(&c.v_zero[g][at + kPageTokens]), z1[g]);
    }
  }
  if (code == KvCode::int4)
    for (int g = 0; g < groups; g++) z_sum[g] = sum_of(z0[g] + z1[g]);
  return sum_of(l0 + l1);
}

// What becomes of a tile's o: kept as a partial, or folded into O with a and b per row.
struct TileOutput {
  float* o;        // [MR, D]
  const float* a;  // null: kept
  const float* b;
  const float* z_sum;  // [MR, kMaxGroups]
};

// o of NZ vectors of dims, from vector d.
template <class Source, int MR, int NZ>
PG_INLINE void value_columns(const uint32_t* P,
                             int64_t group_words,
                             const TileQuery& t,
                             int d,
                             const AttentionChunk& c,
                             const TileOutput& out) {
  constexpr int kSteps = Source::kSteps, kUnits = page_words<Source>() / kSteps;
  const Source source;
  const int vectors = t.dim / 16, group = t.code == KvCode::int4 ? d / (kGroupDims / 16) : 0;
  P += group * group_words;
  Lanes o[MR][NZ];
#pragma GCC unroll 12
  for (int r = 0; r < MR; r++)
#pragma GCC unroll 4
    for (int z = 0; z < NZ; z++) o[r][z] = set_all(0.f);
  for (int i = c.first_page; i < c.end_page; i++) {
    const std::byte* v = c.v[i] + d * Source::kUnitBytes;
    const std::byte* next = c.next_v[i] + d * Source::kUnitBytes;
    const uint32_t* p = P + i * page_words<Source>();
    for (int u = 0; u < kUnits; u++) {
      typename Source::Unit x[NZ];
#pragma GCC unroll 4
      for (int z = 0; z < NZ; z++) {
        x[z] = Source::load_unit(v + z * Source::kUnitBytes);
        if constexpr (reads_fetch(MR)) _mm_prefetch(next + z * Source::kUnitBytes, _MM_HINT_T0);
      }
      v += vectors * Source::kUnitBytes;
      next += vectors * Source::kUnitBytes;
#pragma GCC unroll 4
      for (int j = 0; j < kSteps; j++, p++) {
        decltype(source.step(x[0], 0)) w[NZ];
#pragma GCC unroll 4
        for (int z = 0; z < NZ; z++) w[z] = source.step(x[z], j);
#pragma GCC unroll 12
        for (int r = 0; r < MR; r++)
#pragma GCC unroll 4
          for (int z = 0; z < NZ; z++)
            o[r][z] = multiply_add(o[r][z], w[z], p + r * row_words<Source>());
      }
    }
  }
#pragma GCC unroll 12
  for (int r = 0; r < MR; r++)
#pragma GCC unroll 4
    for (int z = 0; z < NZ; z++) {
      float* at = out.o + int64_t{r} * t.dim + 16 * (d + z);
      Lanes x = o[r][z];
      if (t.code == KvCode::int4) x = x + set_all(out.z_sum[r * kMaxGroups + group]);
      if (out.a) x = fma(x, set_all(out.b[r]), load(at) * set_all(out.a[r]));
      store(at, x);
    }
}

template <class Source, int MR>
void values(const uint32_t* P,
            int64_t group_words,
            const TileQuery& t,
            const AttentionChunk& c,
            const TileOutput& out) {
  constexpr int NZ = value_vectors(MR);
  const int vectors = t.dim / 16;
  int d = 0;
  for (; d + NZ <= vectors; d += NZ) value_columns<Source, MR, NZ>(P, group_words, t, d, c, out);
  if constexpr (NZ > 2)
    for (; d + 2 <= vectors; d += 2) value_columns<Source, MR, 2>(P, group_words, t, d, c, out);
  if constexpr (NZ > 1)
    for (; d < vectors; d++) value_columns<Source, MR, 1>(P, group_words, t, d, c, out);
}

// {M, L} (+) {m, l} for n <= 16 rows; a and b are what O and o get multiplied by.
inline void fold(int n, float* M, float* L, const float* m, const float* l, float* a, float* b) {
  alignas(64) float x[4][16] = {};
  for (int r = 0; r < n; r++) x[0][r] = M[r], x[1][r] = L[r], x[2][r] = m[r], x[3][r] = l[r];
  const Lanes M0 = load(x[0]), m0 = load(x[2]), M1 = max(M0, m0);
  const Lanes av = exp2_of(M0 - M1), bv = exp2_of(m0 - M1);
  store(x[0], M1);
  store(x[1], fma(load(x[3]), bv, load(x[1]) * av));
  store(x[2], av);
  store(x[3], bv);
  for (int r = 0; r < n; r++) M[r] = x[0][r], L[r] = x[1][r], a[r] = x[2][r], b[r] = x[3][r];
}

}  // namespace pagoda::cpu::PAGODA_ISA
