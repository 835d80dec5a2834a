// Keys and values into the paged cache, and attention over it.
//
// Head sizes are multiples of 16 up to 256, the same for K and V; fp8 is refused (PG_CHECK). A
// row's result has the same bits whatever else is in the call, however its prompt was cut, and for
// any number of threads, blocks in any order and any block size. Slots of a visible block that no
// token was stored in must hold finite bytes: zero_blocks when a block is taken.
#pragma once

#include <span>

#include "backend/cpu/attention_args.h"
#include "backend/cpu/context.h"

namespace pagoda::cpu {

// The cache as kernels see it.
KvPages kv_pages(const KvView& kv);

void rope_store_kv(Context& context, const RopeStoreKvArgs& args);
void read_kv(
    const Context& context, const KvView& kv, int64_t slot, std::span<float> k, std::span<float> v);

int64_t attention_scratch_bytes(const WorkspaceShape& shape, int num_threads);
void attention(Context& context, const AttentionArgs& args);

}  // namespace pagoda::cpu
