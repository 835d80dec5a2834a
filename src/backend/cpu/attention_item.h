// One work item of attention: some rows of one (sequence, KV head), over a range of chunks. What is
// shared by the kernels that run items (attention_kernels.cpp) and those that finish rows.
#pragma once

#include <math.h>
#include <string.h>

#include "backend/cpu/attention_tile.h"

namespace pagoda::cpu::PAGODA_ISA {

// Of a row of the item: where its query and its output lie.
PG_INLINE int64_t row_token(const AttentionJob& job, const AttentionItem& item, int row) {
  return item.first_token + (item.row_begin + row) / job.group;
}
PG_INLINE int row_head(const AttentionJob& job, const AttentionItem& item, int row) {
  return item.kv_head * job.group + (item.row_begin + row) % job.group;
}
PG_INLINE int row_position(const AttentionJob& job, const AttentionItem& item, int row) {
  return item.first_position + (item.row_begin + row) / job.group;
}

PG_INLINE const std::byte* page_head(const KvPages& kv, const AttentionItem& item, int block) {
  return kv.base + item.block_table[block] * kv.block_bytes + item.kv_head * kv.head_bytes;
}

// Writes row `row` from its folded {M, L, O}: the sink, the division, the log-sum-exp.
inline void finish_row(
    const AttentionJob& job, const AttentionItem& item, int row, float M, float L, const float* o) {
  const int dim = job.kv.dim, head = row_head(job, item, row);
  const int64_t token = row_token(job, item, row);
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

}  // namespace pagoda::cpu::PAGODA_ISA
