// Flash attention over the paged cache, by work items.
//
// Computes softmax(q · kᵀ * scale) · v for an item's rows, chunk by chunk (attention_tile.h).
// In: q [T, H * D] f32, pages of K and V; out: [T, H * D] f32, or partials that merge() folds.
// One thread runs one item at a time; a chunk's pages are resolved once for all of its rows, and
// f16, int8 and int4 keys are widened once for more than kFewRows rows, in registers for fewer.
// Moves rows * D * 8 + keys * (K and V bytes) per item; 4 * rows * keys * D FLOPs.
// The caller checks: D a multiple of 16 up to 256, num_rows <= kMaxItemRows.
// Must equal backend/reference's attention up to rounding, and itself bit for bit however cut.
#include "backend/cpu/attention_kernels.h"

#include "backend/cpu/attention_item.h"

namespace pagoda::cpu::PAGODA_ISA {
namespace {

int tile_rows(int left, int widest) {
  if (widest == 6 && (left == 8 || left == 4)) return 4;
  if (left >= widest) return widest;
  for (int mr : {8, 6, 4, 3, 2})
    if (left >= mr && mr <= widest) return mr;
  return 1;
}
// Rows of a register tile, for an item of `rows`: few rows never take a tile made for many.
int next_tile(int left, int rows) {
  return tile_rows(left, rows <= kFewRows && kWidestTile > kFewRows ? kFewRows : kWidestTile);
}

// q: [tile][D][MR] f32, or [tile][D / 2][MR] pairs of bf16; and the sums that int4's zeros take.
template <bool kPairs>
void pack_query(const AttentionJob& job, const AttentionItem& item, const AttentionScratch& s) {
  const int dim = job.kv.dim;
  const Lanes scale = set_all(job.softcap > 0 ? job.scale : job.scale * kLog2E);
  RowCursor cursor(job, item, 0);
  for (int row = 0, mr; row < item.num_rows; row += mr) {
    mr = next_tile(item.num_rows - row, item.num_rows);
    uint32_t* tile = s.q + int64_t{row} * (kPairs ? dim / 2 : dim);
    for (int r = 0; r < mr; r++, cursor.next(job)) {
      const float* q = cursor.q(job, item);
      Lanes sum = set_all(0.f);
      for (int d = 0; d < dim; d += 16) {
        alignas(64) uint32_t words[16];
        Lanes x = load(q + d) * scale;
        uint32_t* to = tile + d / (kPairs ? 2 : 1) * mr + r;
#ifdef __AVX512BF16__
        if constexpr (kPairs) {
          const __m256i rounded = (__m256i)_mm512_cvtneps_pbh(x.v);
          _mm256_store_si256(reinterpret_cast<__m256i*>(words), rounded);
          x = {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(rounded), 16))};
        }
#endif
        if constexpr (!kPairs) store(reinterpret_cast<float*>(words), x);
        for (int i = 0; i < (kPairs ? 8 : 16); i++) to[i * mr] = words[i];
        sum = d % kGroupDims ? sum + x : x;
        if (d % kGroupDims == kGroupDims - 16 || d + 16 == dim)
          s.q_sum[(row + r) * kMaxGroups + d / kGroupDims] = sum_of(sum);
      }
      s.position[row + r] = item.first_position + cursor.token;
    }
  }
}

// The pages [first, last] of a chunk; before and past them, the first and the last again.
void find_pages(const KvPages& kv,
                const AttentionItem& item,
                int chunk,
                int first,
                int last,
                const std::byte** k,
                const std::byte** v) {
  PageCursor page(kv, item, chunk * kChunkPages + first);
  for (int i = first;; i++) {
    k[i] = page.k(kv);
    v[i] = page.v(kv);
    if (i == last) break;
    page.next(kv, item);
  }
  for (int i = 0; i < first; i++) k[i] = k[first], v[i] = v[first];
  for (int i = last + 1; i < kChunkPages; i++) k[i] = k[last], v[i] = v[last];
  for (int i = kChunkPages; i < kChunkPages + kReadAhead; i++) k[i] = k[last];
}

void fetch_scales(const KvPages& kv, const AttentionItem& item, int chunk, int first, int last) {
  PageCursor page(kv, item, chunk * kChunkPages + first);
  for (int i = first;; i++) {
    for (int at = 0; at < kv.scale_bytes; at += 64) {
      _mm_prefetch(page.k_scales(kv) + at, _MM_HINT_T0);
      _mm_prefetch(page.v_scales(kv) + at, _MM_HINT_T0);
    }
    if (i == last) break;
    page.next(kv, item);
  }
}

// Scales of the visible pages, in f32. int4's zero is moved to where n = 8.
void load_scales(const KvPages& kv, const AttentionItem& item, int chunk, AttentionChunk& c) {
  const Lanes eight = set_all(8.f);
  PageCursor page(kv, item, chunk * kChunkPages + c.first_page);
  for (int i = c.first_page & ~1; i < ((c.end_page + 1) & ~1); i++) {
    const std::byte *k = page.k_scales(kv), *v = page.v_scales(kv);
    const int key = i * kPageTokens;
    for (int g = 0; g < kv.groups; g++, k += 64, v += 64) {
      store(&c.k_scale[g][key], from_f16(k));
      store(&c.v_scale[g][key], from_f16(v));
      if (kv.code != KvCode::int4) break;
      store(&c.k_zero[g][key], fma(eight, from_f16(k), from_f16(k + 32)));
      store(&c.v_zero[g][key], fma(eight, from_f16(v), from_f16(v + 32)));
    }
    if (i >= c.first_page && i + 1 < c.end_page) page.next(kv, item);
  }
}

int first_key(const AttentionJob& job, const AttentionItem& item) {
  const int position = item.first_position + item.row_begin / job.group;
  return job.window > 0 && position >= job.window ? position + 1 - job.window : 0;
}
int last_key(const AttentionJob& job, const AttentionItem& item) {
  return item.first_position + (item.row_begin + item.num_rows - 1) / job.group;
}

struct PageRange {
  int first;
  int last;
};
// Pages of the chunk that the item's rows see.
PageRange visible_pages(const AttentionJob& job, const AttentionItem& item, int chunk) {
  const int begin = chunk * kChunkPages;
  const int first = first_key(job, item) / kPageTokens - begin;
  const int last = last_key(job, item) / kPageTokens - begin;
  return {first > 0 ? first : 0, last < kChunkPages - 1 ? last : kChunkPages - 1};
}

void load_chunk(const AttentionJob& job,
                const AttentionItem& item,
                const AttentionItem* next,
                int chunk,
                AttentionChunk& c) {
  const PageRange pages = visible_pages(job, item, chunk);
  find_pages(job.kv, item, chunk, pages.first, pages.last, c.k, c.v);
  c.first_page = pages.first;
  c.end_page = pages.last + 1;
  c.tiles_done = 0;
  const bool more = chunk + 1 < item.chunk_end;
  if (more || next) {
    const AttentionItem& after = more ? item : *next;
    const int then = more ? chunk + 1 : next->chunk_begin;
    const PageRange ahead = visible_pages(job, after, then);
    find_pages(job.kv, after, then, ahead.first, ahead.last, c.next_k, c.next_v);
    if (job.kv.groups > 0) fetch_scales(job.kv, after, then, ahead.first, ahead.last);
  } else {
    memcpy(c.next_k, c.k, sizeof c.k);
    memcpy(c.next_v, c.v, sizeof c.v);
  }
  if (job.kv.groups > 0) load_scales(job.kv, item, chunk, c);
}

PG_INLINE void store_operand(std::byte* to, Lanes x) {
  store(reinterpret_cast<float*>(to), x);
}
#ifdef __AVX512BF16__
PG_INLINE void store_operand(std::byte* to, Pairs x) {
  _mm512_storeu_si512(to, (__m512i)x.v);
}
#endif

// The chunk's pages as operands, 64 bytes each, in memory: what many rows read again and again.
template <class Source>
void widen_chunk(const KvPages& kv, AttentionChunk& c, const AttentionScratch& s) {
  const Source source;
  constexpr int kSteps = Source::kSteps;
  const int vectors = kv.dim / 16, units = kv.page_bytes / Source::kUnitBytes;
  const int64_t wide_bytes = int64_t{units} * kSteps * 64;
  for (int i = c.first_page; i < c.end_page; i++) {
    std::byte *k = s.wide_k + i * wide_bytes, *v = s.wide_v + i * wide_bytes;
    for (int n = 0; n < units; n++) {
      const auto x = Source::load_unit(c.k[i] + n * Source::kUnitBytes);
      const auto y = Source::load_unit(c.v[i] + n * Source::kUnitBytes);
      std::byte* to = v + 64 * (n / vectors * kSteps * vectors + n % vectors);
#pragma GCC unroll 4
      for (int j = 0; j < kSteps; j++) {
        store_operand(k + 64 * (n * kSteps + j), source.step(x, j));
        store_operand(to + 64 * j * vectors, source.step(y, j));
      }
    }
  }
  for (int i = 0; i < kChunkPages + kReadAhead; i++) {
    const int page = i < c.first_page ? c.first_page : i < c.end_page ? i : c.end_page - 1;
    c.k[i] = s.wide_k + page * wide_bytes;
    if (i < kChunkPages) c.v[i] = s.wide_v + page * wide_bytes;
  }
}

#ifdef __AVX512BF16__
template <class Source>
struct WideOf {
  using Type = F32Source;
};
template <>
struct WideOf<Bf16Dot> {
  using Type = Bf16Dot;
};
template <>
struct WideOf<Int8Dot> {
  using Type = Bf16Dot;
};
template <>
struct WideOf<Int4Dot> {
  using Type = Bf16Dot;
};
#else
template <class Source>
struct WideOf {
  using Type = F32Source;
};
#endif

template <class Source, int MR>
void tile(const AttentionJob& job,
          const AttentionItem& item,
          const AttentionScratch& s,
          int row,
          int chunk) {
  using Wide = typename WideOf<Source>::Type;
  AttentionChunk& c = *s.chunk;
  const int dim = job.kv.dim, groups = job.kv.groups, key0 = chunk * kChunkTokens;
  const TileQuery t{s.q + int64_t{row} * dim / kDepth<Source>,
                    s.q_sum + row * kMaxGroups,
                    dim,
                    job.kv.code,
                    job.kv.page_bytes};
  scores<Source, MR>(t, c, s.scores, s.best);
  constexpr int64_t kGroupWords = MR * row_words<Source>();
  float m[MR], l[MR], a[MR], b[MR], z_sum[MR * kMaxGroups];
  for (int r = 0; r < MR; r++) {
    float* S = s.scores + r * kChunkTokens;
    const int end = s.position[row + r] + 1 - key0;
    const int first = job.window > 0 ? end - job.window : 0;
    const bool all = first <= 0 && end >= kChunkTokens && !(job.softcap > 0);
    m[r] = all ? max_of(load(s.best + 16 * r)) : limit_scores(c, S, first, end, job.softcap);
    l[r] = weights<Wide>(S,
                         m[r],
                         c,
                         job.kv.code,
                         groups,
                         s.weights + r * row_words<Source>(),
                         kGroupWords,
                         z_sum + r * kMaxGroups);
  }
  c.tiles_done++;
  if (item.kind == ItemKind::parts) {
    float* to = job.partials + item.partials +
                (chunk - item.split_chunk + 1) * partial_floats(item.num_rows, dim);
    memcpy(to + int64_t{item.num_rows} * dim + row, m, sizeof m);
    memcpy(to + int64_t{item.num_rows} * (dim + 1) + row, l, sizeof l);
    values<Source, MR>(
        s.weights, kGroupWords, t, c, {to + int64_t{row} * dim, nullptr, nullptr, z_sum});
    return;
  }
  fold(MR, s.max + row, s.sum + row, m, l, a, b);
  values<Source, MR>(s.weights, kGroupWords, t, c, {s.o + int64_t{row} * dim, a, b, z_sum});
}

template <class Source, bool kFew>
void all_tiles(const AttentionJob& job,
               const AttentionItem& item,
               const AttentionScratch& s,
               int chunk) {
  for (int row = 0, mr; row < item.num_rows; row += mr) {
    mr = next_tile(item.num_rows - row, item.num_rows);
    if constexpr (!kFew && kWidestTile >= 12)
      if (mr == 12) tile<Source, 12>(job, item, s, row, chunk);
    if constexpr (kWidestTile >= 8)
      if (mr == 8) tile<Source, 8>(job, item, s, row, chunk);
    if (mr == 6) tile<Source, 6>(job, item, s, row, chunk);
    if (mr == 4) tile<Source, 4>(job, item, s, row, chunk);
    if (mr == 3) tile<Source, 3>(job, item, s, row, chunk);
    if (mr == 2) tile<Source, 2>(job, item, s, row, chunk);
    if (mr == 1) tile<Source, 1>(job, item, s, row, chunk);
  }
}

template <class Source>
void widened_tiles(const AttentionJob& job,
                   const AttentionItem& item,
                   const AttentionScratch& s,
                   int chunk) {
  if (item.num_rows <= kFewRows) return all_tiles<Source, true>(job, item, s, chunk);
  widen_chunk<Source>(job.kv, *s.chunk, s);
  all_tiles<typename WideOf<Source>::Type, false>(job, item, s, chunk);
}

void compute_chunk(const AttentionJob& job,
                   const AttentionItem& item,
                   const AttentionScratch& s,
                   int chunk) {
  switch (job.kv.code) {
    case KvCode::f32:
      return all_tiles<F32Source, false>(job, item, s, chunk);
    case KvCode::f16:
      return widened_tiles<F16Source>(job, item, s, chunk);
    case KvCode::bf16:
      if constexpr (Bf16Best::kPairs) return all_tiles<Bf16Best, false>(job, item, s, chunk);
      return widened_tiles<Bf16Best>(job, item, s, chunk);
    case KvCode::int8:
      return widened_tiles<Int8Best>(job, item, s, chunk);
    case KvCode::int4:
      return widened_tiles<Int4Best>(job, item, s, chunk);
  }
}

bool has_pairs(KvCode code) {
  return Bf16Best::kPairs && (code == KvCode::bf16 || code == KvCode::int8 || code == KvCode::int4);
}

void attend(const AttentionJob& job,
            const AttentionItem& item,
            const AttentionItem* next,
            const AttentionScratch& s) {
  const int dim = job.kv.dim, rows = item.num_rows;
  if (has_pairs(job.kv.code))
    pack_query<Bf16Best::kPairs>(job, item, s);
  else
    pack_query<false>(job, item, s);
  if (item.kind != ItemKind::parts) {
    for (int r = 0; r < rows; r++) s.max[r] = kFloor, s.sum[r] = 0.f;
    memset(s.o, 0, sizeof(float) * rows * dim);
  }
  for (int chunk = item.chunk_begin; chunk < item.chunk_end; chunk++) {
    load_chunk(job, item, next, chunk, *s.chunk);
    compute_chunk(job, item, s, chunk);
  }
  if (item.kind == ItemKind::whole) {
    finish_rows(job, item, s.max, s.sum, s.o);
  } else if (item.kind == ItemKind::state) {
    float* to = job.partials + item.partials;
    memcpy(to, s.o, sizeof(float) * rows * dim);
    memcpy(to + int64_t{rows} * dim, s.max, sizeof(float) * rows);
    memcpy(to + int64_t{rows} * (dim + 1), s.sum, sizeof(float) * rows);
  }
}

void merge(const AttentionJob& job, const AttentionItem& item) {
  const int dim = job.kv.dim, rows = item.num_rows;
  const int64_t stride = partial_floats(rows, dim);
  float *O = job.partials + item.partials, *M = O + int64_t{rows} * dim, *L = M + rows;
  float a[16], b[16];
  for (int chunk = item.split_chunk; chunk < item.chunk_end; chunk++) {
    const float* o = O + (chunk - item.split_chunk + 1) * stride;
    const float *m = o + int64_t{rows} * dim, *l = m + rows;
    for (int row = 0; row < rows; row += 16) {
      const int n = rows - row < 16 ? rows - row : 16;
      fold(n, M + row, L + row, m + row, l + row, a, b);
      for (int r = 0; r < n; r++) {
        float* to = O + int64_t{row + r} * dim;
        const float* from = o + int64_t{row + r} * dim;
        const Lanes av = set_all(a[r]), bv = set_all(b[r]);
        for (int d = 0; d < dim; d += 16) store(to + d, fma(load(from + d), bv, load(to + d) * av));
      }
    }
  }
  finish_rows(job, item, M, L, O);
}

}  // namespace

void fill_naive(AttentionKernels&);
void fill_store(AttentionKernels&);

void fill(AttentionKernels& kernels) {
  kernels.attend = attend;
  kernels.merge = merge;
  fill_naive(kernels);
  fill_store(kernels);
}

}  // namespace pagoda::cpu::PAGODA_ISA
