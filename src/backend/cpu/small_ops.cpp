#include "backend/cpu/small_ops.h"

#include <cstring>

namespace pagoda::cpu {

void copy_blocks(std::span<const KvView> layers, std::span<const BlockCopy> copies) {
  for (const KvView& kv : layers)
    for (const BlockCopy& copy : copies) {
      PG_CHECK(
          copy.from >= 0 && copy.from < kv.num_blocks && copy.to >= 0 && copy.to < kv.num_blocks,
          "copy {} to {} of {} blocks",
          copy.from,
          copy.to,
          kv.num_blocks);
      std::memmove(kv.head(copy.to, 0), kv.head(copy.from, 0), kv.block_bytes());
    }
}

void zero_blocks(std::span<const KvView> layers, std::span<const int32_t> blocks) {
  for (const KvView& kv : layers)
    for (const int32_t block : blocks) {
      PG_CHECK(block >= 0 && block < kv.num_blocks, "block {} of {}", block, kv.num_blocks);
      std::memset(kv.head(block, 0), 0, kv.block_bytes());
    }
}

void embed(Context&, const EmbedArgs&) {
  PG_CHECK(false, "embed");
}
void norm(Context&, const NormArgs&) {
  PG_CHECK(false, "norm");
}
void activation(Context&, const ActivationArgs&) {
  PG_CHECK(false, "activation");
}
void rope_angles(Context&, const RopeAnglesArgs&) {
  PG_CHECK(false, "rope_angles");
}
void gather_rows(Context&, const GatherRowsArgs&) {
  PG_CHECK(false, "gather_rows");
}
int64_t sample_scratch_bytes(const WorkspaceShape&, int) {
  return 0;
}
void process_logits(Context&, const ProcessLogitsArgs&) {
  PG_CHECK(false, "process_logits");
}
void sample(Context&, const SampleArgs&) {
  PG_CHECK(false, "sample");
}

}  // namespace pagoda::cpu
