#include "engine/shared_keys.h"

#include <algorithm>

namespace pagoda {
namespace {

// Blocks from the start that both tables hold, at most `most`.
int32_t num_same(const TablesOfStep& step, int32_t a, int32_t b, int32_t most) {
  const int32_t* left = &step.block_table[int64_t{a} * step.max_blocks];
  const int32_t* right = &step.block_table[int64_t{b} * step.max_blocks];
  int32_t n = 0;
  while (n < most && left[n] >= 0 && left[n] == right[n]) n++;
  return n;
}

}  // namespace

void find_shared_keys(const TablesOfStep& step, std::vector<SharedKeys>& groups) {
  groups.clear();
  const auto B = static_cast<int32_t>(step.kv_lens.size());
  // Blocks that were full before this step.
  const auto num_old = [&](int32_t b) {
    const int32_t rows = step.cu_q_lens[b + 1] - step.cu_q_lens[b];
    return std::min(step.max_blocks, std::max(0, step.kv_lens[b] - rows) / step.block_size);
  };
  for (int32_t first = 0; first < B;) {
    int32_t end = first + 1, shared = num_old(first);
    while (end < B) {
      const int32_t with_next = num_same(step, first, end, std::min(shared, num_old(end)));
      if (with_next * step.block_size < kLeastSharedKeys) break;
      // One more that shares little is not worth what the others share beyond it.
      const int64_t others = end - first - 1;  // that don't read `shared` again
      if ((others + 1) * with_next < others * shared) break;
      shared = with_next;
      end++;
    }
    if (end - first > 1) groups.push_back({first, end - first, shared * step.block_size});
    first = end;
  }
}

}  // namespace pagoda
