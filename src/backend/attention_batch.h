// AttentionBatch: the sequences of a step, as attention sees them: how many new rows each has, of
// which kind, how many keys, and in which blocks these lie. Shapes as in op_args.h.
#pragma once

#include <cstdint>
#include <span>

namespace pagoda {

enum class AttentionAlgorithm : uint8_t { flash, naive };

// Sequences side by side whose first num_keys keys lie in the same blocks, none of them written by
// this step.
struct SharedKeys {
  int32_t first_seq = 0;
  int32_t num_seqs = 0;
  int32_t num_keys = 0;
};

// The sequences of a step, for one layer group. Sequence b's new tokens are rows cu_q_lens[b] …
// cu_q_lens[b + 1] - 1, its last q_len positions before kv_lens[b]; kv_lens counts them.
// block_table[b, i] holds positions i * S …; entries that a window has left behind, or that lie
// past the end, are never read.
struct AttentionBatch {
  std::span<const int32_t> cu_q_lens;    // [B + 1]
  std::span<const int32_t> kv_lens;      // [B]
  std::span<const int32_t> block_table;  // [B, max_blocks]
  int32_t max_blocks = 0;
  std::span<const int32_t>
      host_cu_q_lens;  // the same on the host, for plans; on a CPU the same memory
  std::span<const int32_t> host_kv_lens;
  // Host, [B]: how many of a sequence's rows, its last ones, are sampling rows: the last token of
  // the prompt, tokens generated after it, drafts. The others are rows of the prompt. Empty: none
  // is a sampling row. A backend may have an arithmetic for each (on CUDA decode's and prefill's),
  // so a row must be the same kind whenever it is computed: by its position, never by the step.
  std::span<const int32_t> host_sampling_rows = {};
  // Host; disjoint, ascending: what a backend may read once for several sequences. No result
  // depends on it.
  std::span<const SharedKeys> host_shared = {};
};

}  // namespace pagoda
