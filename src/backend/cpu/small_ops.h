// The operations that read each row once: norm, activation, angles, embedding, rows, logits, draws,
// and moving blocks. Definitions: backend/op_args.h, sample_args.h.
#pragma once

#include <span>

#include "backend/cpu/context.h"

namespace pagoda::cpu {

int64_t embed_scratch_bytes(const WorkspaceShape& shape, int num_threads);
void embed(Context& context, const EmbedArgs& args);
void norm(Context& context, const NormArgs& args);
void activation(Context& context, const ActivationArgs& args);
void rope_angles(Context& context, const RopeAnglesArgs& args);
void gather_rows(Context& context, const GatherRowsArgs& args);
void copy_blocks(std::span<const KvView> layers, std::span<const BlockCopy> copies);
void zero_blocks(std::span<const KvView> layers, std::span<const int32_t> blocks);

int64_t sample_scratch_bytes(const WorkspaceShape& shape, int num_threads);
void process_logits(Context& context, const ProcessLogitsArgs& args);
void sample(Context& context, const SampleArgs& args);

}  // namespace pagoda::cpu
