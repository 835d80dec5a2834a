// One work item of attention: some rows of one (sequence, KV head), over a range of chunks. What is
// shared by the kernels that run items (attention_kernels.cpp) and those that finish rows.
#pragma once

#include <math.h>
#include <string.h>

#include "backend/cpu/attention_tile.h"

namespace pagoda::cpu::PAGODA_ISA {

// Rows in order: the token and the head of each.
struct RowCursor {
  int32_t token;  // after the sequence's first new one
  int32_t head;   // within the group

  PG_INLINE RowCursor(const AttentionJob& job, const AttentionItem& item, int row)
      : token((item.row_begin + row) / job.group), head((item.row_begin + row) % job.group) {}
  PG_INLINE void next(const AttentionJob& job) {
    if (++head < job.group) return;
    head = 0;
    token++;
  }
  PG_INLINE const float* q(const AttentionJob& job, const AttentionItem& item) const {
    return job.q + (item.first_token + token) * job.q_stride +
           (int64_t{item.kv_head} * job.group + head) * job.kv.dim;
  }
};

// Pages of the item's KV head, in order.
struct PageCursor {
  int32_t block;
  int32_t within;
  const std::byte* head;

  PG_INLINE PageCursor(const KvPages& kv, const AttentionItem& item, int page)
      : block(page / kv.block_pages), within(page % kv.block_pages) {
    find(kv, item);
  }
  PG_INLINE void next(const KvPages& kv, const AttentionItem& item) {
    if (++within < kv.block_pages) return;
    within = 0;
    block++;
    find(kv, item);
  }
  PG_INLINE const std::byte* k(const KvPages& kv) const {
    return head + int64_t{within} * kv.page_bytes;
  }
  PG_INLINE const std::byte* v(const KvPages& kv) const { return k(kv) + kv.v_offset; }
  PG_INLINE const std::byte* k_scales(const KvPages& kv) const {
    return head + kv.k_scales_offset + int64_t{within} * kv.scale_bytes;
  }
  PG_INLINE const std::byte* v_scales(const KvPages& kv) const {
    return head + kv.v_scales_offset + int64_t{within} * kv.scale_bytes;
  }

 private:
  PG_INLINE void find(const KvPages& kv, const AttentionItem& item) {
    head = kv.base + item.block_table[block] * kv.block_bytes + item.kv_head * kv.head_bytes;
  }
};

// Writes a row from its folded {M, L, O}: the sink, the division, the log-sum-exp.
inline void finish_row(const AttentionJob& job,
                       const AttentionItem& item,
                       const RowCursor& row,
                       float M,
                       float L,
                       const float* o) {
  const int dim = job.kv.dim, head = item.kv_head * job.group + row.head;
  const int64_t token = item.first_token + row.token;
  float scale = 1.f;
  if (job.sinks) {  // one more key of weight 1 and no value
    const float m = job.sinks[head] * kLog2E, l = 1.f;
    float b;
    fold(1, &M, &L, &m, &l, &scale, &b);
  }
  const bool seen = L > 0.f || L != L;
  const Lanes factor = set_all(scale), inverse = set_all(seen ? 1.f / L : 0.f);
  float* out = job.out + token * job.out_stride + int64_t{head} * dim;
  for (int d = 0; d < dim; d += 16) store(out + d, load(o + d) * factor * inverse);
  if (job.log_sum_exp)
    job.log_sum_exp[token * job.log_sum_exp_stride + head] =
        seen ? (M + log2f(L)) * kLn2 : -__builtin_inff();
}

// The item's rows, finished: O [num_rows, D].
inline void finish_rows(const AttentionJob& job,
                        const AttentionItem& item,
                        const float* M,
                        const float* L,
                        const float* O) {
  RowCursor row(job, item, 0);
  for (int r = 0; r < item.num_rows; r++, row.next(job))
    finish_row(job, item, row, M[r], L[r], O + int64_t{r} * job.kv.dim);
}

}  // namespace pagoda::cpu::PAGODA_ISA
