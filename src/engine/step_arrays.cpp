#include "engine/step_arrays.h"

#include <algorithm>

#include "base/checked.h"
#include "base/error.h"

namespace pagoda {

StepArrays::StepArrays(Backend& backend, int64_t max_ints) : backend_(backend) {
  if (backend.uses_host_memory()) return;
  host_.resize(max_ints);
  device_ = backend.allocator().allocate(max_ints * int64_t{sizeof(int32_t)}, MemoryTag::workspace);
}

std::span<const int32_t> StepArrays::put(std::span<const int32_t> host) {
  if (backend_.uses_host_memory()) return host;
  const int64_t at = used_;
  used_ = round_up(at + std::ssize(host), kAlignment);
  PG_CHECK(used_ <= std::ssize(host_), "{} integers of {}", used_, host_.size());
  std::copy(host.begin(), host.end(), host_.begin() + at);
  return {device_.as<const int32_t>() + at, host.size()};
}

void StepArrays::send() {
  if (used_ > 0)
    backend_.copy_to_device(device_.data(),
                            reinterpret_cast<const std::byte*>(host_.data()),
                            used_ * int64_t{sizeof(int32_t)});
}

int64_t StepArrays::num_ints(const Sizes& s) {
  const auto padded = [](int64_t n) { return round_up(n, kAlignment); };
  // Ids and positions; lengths; logit rows; of each group slots and its table.
  return 2 * padded(s.max_tokens) + padded(s.max_seqs + 1) + 2 * padded(s.max_seqs) +
         s.num_groups * (padded(s.max_tokens) + padded(int64_t{s.max_seqs} * s.max_blocks));
}

int64_t StepArrays::num_bytes(const Backend& backend, const Sizes& sizes) {
  return backend.uses_host_memory() ? 0 : num_ints(sizes) * int64_t{sizeof(int32_t)};
}

}  // namespace pagoda
