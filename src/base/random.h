// The counter-based generator of random draws: Philox4x32-10 (Salmon et al., "Parallel random
// numbers: as easy as 1, 2, 3", SC 2011). A draw is a function of (seed, choice, position) alone:
// no state, so batching, preemption and speculation cannot move it.
#pragma once

#include <array>
#include <cstdint>

namespace pagoda {

constexpr std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter,
                                             std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; round++) {
    const uint64_t a = uint64_t{0xD2511F53} * counter[0], b = uint64_t{0xCD9E8D57} * counter[2];
    counter = {uint32_t(b >> 32) ^ counter[1] ^ key[0],
               uint32_t(b),
               uint32_t(a >> 32) ^ counter[3] ^ key[1],
               uint32_t(a)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

// The draw for one sampled token, uniform in [0, 1) with 53 bits. `choice`: index of the sample of
// a request (n); `position`: index of the token in its sequence.
constexpr double uniform_draw(uint64_t seed, uint32_t choice, uint64_t position) {
  const auto r = philox4x32({uint32_t(position), uint32_t(position >> 32), choice, 0},
                            {uint32_t(seed), uint32_t(seed >> 32)});
  return double((uint64_t{r[0]} << 21) ^ (r[1] >> 11)) * 0x1p-53;
}

}  // namespace pagoda
