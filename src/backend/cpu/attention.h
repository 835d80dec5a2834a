// Keys and values into the paged cache, and attention over it.
#pragma once

#include <span>

#include "backend/cpu/context.h"

namespace pagoda::cpu {

void rope_store_kv(Context& context, const RopeStoreKvArgs& args);
void read_kv(const KvView& kv, int64_t slot, std::span<float> k, std::span<float> v);

int64_t attention_scratch_bytes(const WorkspaceShape& shape, int num_threads);
void attention(Context& context, const AttentionArgs& args);

}  // namespace pagoda::cpu
