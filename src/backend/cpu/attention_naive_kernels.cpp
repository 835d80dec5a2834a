// Attention by its definition, for comparison with the flash kernels: a row's scores over all keys
// are written to memory, turned into weights by one softmax, and summed with V.
//
// In: q [T, H * D] f32 and pages of K and V, widened to f32 anew for every row; out [T, H * D] f32.
// One thread computes one row of one query head at a time. Moves D * keys * 2 * stored bytes per
// row and reads or writes the scores four times; 4 * keys * D FLOPs a row. The caller gives
// row_scores for all keys. Must equal backend/reference's attention up to rounding.
#include "backend/cpu/attention_item.h"
#include "backend/cpu/attention_kernels.h"
#include "backend/cpu/kv_page.h"

namespace pagoda::cpu::PAGODA_ISA {
namespace {

// Keys [first, end) of one row.
void naive_row(const AttentionJob& job,
               const AttentionItem& item,
               const RowCursor& row,
               const AttentionScratch& s) {
  const KvPages& kv = job.kv;
  const int dim = kv.dim, end = item.first_position + row.token + 1;
  const int first = job.window > 0 && end > job.window ? end - job.window : 0;
  const int first_page = first / kPageTokens, end_page = (end - 1) / kPageTokens + 1;
  const float* q = row.q(job, item);
  const Lanes scale = set_all(job.softcap > 0 ? job.scale / job.softcap : job.scale * kLog2E);
  float *wide = reinterpret_cast<float*>(s.wide_k), *S = s.row_scores;
  Lanes best = set_all(kFloor);
  for (int page = first_page; page < end_page; page++) {
    const PageCursor at(kv, item, page);
    widen_k(kv, at.k(kv), at.k_scales(kv), wide);
    Lanes x = set_all(0.f);
    for (int d = 0; d < dim; d++) x = fma(load(wide + 16 * d), set_all(q[d]), x);
    x = x * scale;
    if (job.softcap > 0) x = tanh_of(x) * set_all(job.softcap * kLog2E);
    x = keep_range(x, page * kPageTokens, first, end);
    store(S + (page - first_page) * kPageTokens, x);
    best = max(best, x);
  }
  const float m = max_of(best);
  Lanes sum = set_all(0.f);
  for (int i = 0; i < (end_page - first_page) * kPageTokens; i += 16) {
    const Lanes p = exp2_of(load(S + i) - set_all(m));
    store(S + i, p);
    sum = sum + p;
  }
  memset(s.o, 0, sizeof(float) * dim);
  for (int page = first_page; page < end_page; page++) {
    const PageCursor at(kv, item, page);
    widen_v(kv, at.v(kv), at.v_scales(kv), wide);
    const int begin = page * kPageTokens, limit = end - begin < kPageTokens ? end - begin : 16;
    for (int t = first > begin ? first - begin : 0; t < limit; t++) {
      const Lanes p = set_all(S[(page - first_page) * kPageTokens + t]);
      for (int d = 0; d < dim; d += 16)
        store(s.o + d, fma(load(wide + int64_t{t} * dim + d), p, load(s.o + d)));
    }
  }
  finish_row(job, item, row, m, sum_of(sum), s.o);
}

void naive(const AttentionJob& job, const AttentionItem& item, const AttentionScratch& s) {
  RowCursor row(job, item, 0);
  for (int r = 0; r < item.num_rows; r++, row.next(job)) naive_row(job, item, row, s);
}

}  // namespace

void fill_naive(AttentionKernels& kernels) {
  kernels.naive = naive;
}

}  // namespace pagoda::cpu::PAGODA_ISA
