#include "backend/cpu/attention.h"

namespace pagoda::cpu {

void rope_store_kv(Context&, const RopeStoreKvArgs&) {
  PG_CHECK(false, "rope_store_kv");
}
void read_kv(const KvView&, int64_t slot, std::span<float>, std::span<float>) {
  PG_CHECK(false, "read_kv {}", slot);
}
int64_t attention_scratch_bytes(const WorkspaceShape&, int) {
  return 0;
}
void attention(Context&, const AttentionArgs&) {
  PG_CHECK(false, "attention");
}

}  // namespace pagoda::cpu
