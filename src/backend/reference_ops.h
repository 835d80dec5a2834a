// The reference's operations, one function each, in float64 from their definitions; and its KV
// store. Private to the reference backend.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/backend.h"

namespace pagoda::reference {

void embed(const EmbedArgs& args);
void norm(const NormArgs& args);
void linear(const LinearArgs& args);
void activation(const ActivationArgs& args);
void rope_angles(const RopeAnglesArgs& args);
void rope_store_kv(const RopeStoreKvArgs& args);
void attention(const AttentionArgs& args);
void gather_rows(const GatherRowsArgs& args);
void process_logits(const ProcessLogitsArgs& args);
void sample(const SampleArgs& args);

// One head's K or V of one slot in the stored format: [dim].
enum class KvPart : uint8_t { k, v };
void store_kv(
    const KvView& kv, int64_t slot, int32_t kv_head, KvPart part, std::span<const float> values);
std::vector<double> load_kv(const KvView& kv, int64_t slot, int32_t kv_head, KvPart part);

// fp8 e4m3 (Micikevicius et al. 2022, "FP8 formats for deep learning"): no infinities, the largest
// value is 448; rounds to nearest even and saturates.
uint8_t f32_to_e4m3(float value);
float e4m3_to_f32(uint8_t bits);

}  // namespace pagoda::reference
