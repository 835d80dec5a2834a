// Attention without FlashAttention: every score twice, in f32, a key at a time, straight from its
// definition. For comparison, where `--attention naive` asks for it; nothing else falls back to it.
// Every KV format, every GPU, head sizes up to 256 whose stored rows are multiples of 16 bytes.
#pragma once

#include "backend/cuda/launch.h"
#include "backend/op_args.h"

namespace pagoda::cuda {

// One arithmetic for all rows; lengths are read on the device.
void naive_attention(const AttentionArgs& args, const LaunchOptions& options);

}  // namespace pagoda::cuda
