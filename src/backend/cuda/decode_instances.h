// The table of compiled decode kernels, one file of instances per KV format (decode_<format>.cu):
// head sizes 64, 128 and 256; a smaller head runs in the next larger instance. Columns (query rows
// x heads of one KV head) come by teams of 8, at run time; any number of columns works with any
// number of teams, in more items. Beside them one wide kernel (decode_wide.cu), teams of 16, for
// bf16 and f16 at head size 128.
#pragma once

#include <cstdint>
#include <span>

namespace pagoda::cuda {

struct DecodeInstance {
  const void* kernel;
  int32_t head_dim;  // the largest; of the wide kernel the only one
  int32_t max_teams;
  int32_t team_columns;
  int32_t team_bytes;       // of shared memory
  int32_t row_state_bytes;  // and these, for items of several sections
  int32_t slot_keys;
  int32_t blocks;           // per multiprocessor, of a full launch of one team
  int32_t blocks_of_teams;  // of several teams
};
constexpr int32_t kDecodeTeamsAt = 1024;  // in shared memory, behind the barriers

std::span<const DecodeInstance> decode_bf16_instances();
std::span<const DecodeInstance> decode_f16_instances();
std::span<const DecodeInstance> decode_fp8_instances();
std::span<const DecodeInstance> decode_int8_instances();
std::span<const DecodeInstance> decode_int4_instances();
std::span<const DecodeInstance> decode_wide_instances();

}  // namespace pagoda::cuda
