// StepArrays: the integers of a step (tokens, positions, lengths, slots, block tables) in backend
// memory. Where host memory is backend memory they stay where they are; elsewhere they are packed
// into one buffer of fixed size and sent in one copy.
//   arrays.begin();  auto ids = arrays.put(host_ids);  …  arrays.send();
// The spans may be made use of after send(), until the next begin().
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/backend.h"

namespace pagoda {

class StepArrays {
 public:
  // `max_ints`: of all that is put in one step. Throws Error{"memory.alloc_failed"}.
  StepArrays(Backend& backend, int64_t max_ints);

  void begin() { used_ = 0; }
  std::span<const int32_t> put(std::span<const int32_t> host);
  void send();

  // Integers of a step within these sizes, and the bytes that they take in backend memory.
  struct Sizes {
    int32_t max_tokens = 0;
    int32_t max_seqs = 0;
    int32_t max_blocks = 0;  // row length of a block table
    int32_t num_groups = 0;
  };
  static int64_t num_ints(const Sizes& sizes);
  static int64_t num_bytes(const Backend& backend, const Sizes& sizes);

 private:
  static constexpr int64_t kAlignment = 4;  // integers

  Backend& backend_;
  std::vector<int32_t> host_;
  Buffer device_;
  int64_t used_ = 0;
};

}  // namespace pagoda
