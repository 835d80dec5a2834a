// The kernels of attention and of the KV store for one instruction set. Levels without BF16 dot
// products compute in f32 throughout; v4_bf16 multiplies bf16, int8 and int4 caches with vdpbf16ps.
// A level's cache is read by the same level's kernels only: the order of elements is its own.
#pragma once

#include "backend/cpu/attention_args.h"
#include "backend/cpu/isa.h"

namespace pagoda::cpu {

struct AttentionKernels {
  // `next` (or null): the item this thread works on after, whose first chunk is fetched meanwhile.
  void (*attend)(const AttentionJob&,
                 const AttentionItem&,
                 const AttentionItem* next,
                 const AttentionScratch&);
  // Folds an item's partials (0: the state; then chunks split_chunk … chunk_end - 1) and writes its
  // rows.
  void (*merge)(const AttentionJob&, const AttentionItem&);
  // The whole item by the definition: all scores of a row, one softmax, one sum.
  void (*naive)(const AttentionJob&, const AttentionItem&, const AttentionScratch&);
  // x [D] in place, with angles [rotary_dim / 2] {cos, sin}.
  void (*rotate)(const RotaryJob&, float* x, const float* angles);
  // Writes k [D] and v [D] to slot `token` of a (block, KV head).
  void (*store)(const KvPages&, std::byte* head, int token, const float* k, const float* v);
  // The reverse, as stored, widened: k and v [D].
  void (*load)(const KvPages&, const std::byte* head, int token, float* k, float* v);
};

namespace v3 {
void fill(AttentionKernels&);
}
namespace v4 {
void fill(AttentionKernels&);
}
namespace v4_bf16 {
void fill(AttentionKernels&);
}

inline AttentionKernels attention_kernels(IsaLevel level) {
  AttentionKernels kernels{};
  if (level >= IsaLevel::v4_bf16)
    v4_bf16::fill(kernels);
  else if (level >= IsaLevel::v4)
    v4::fill(kernels);
  else
    v3::fill(kernels);
  return kernels;
}

}  // namespace pagoda::cpu
