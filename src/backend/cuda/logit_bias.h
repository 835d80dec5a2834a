// Biases of a request's row of logits as the GPU adds them: one to a token. In a list a token may
// stand twice; added by two threads, in whatever order they come, x would be one of two numbers.
#pragma once

#include <span>
#include <vector>

#include "backend/sample_args.h"

namespace pagoda::cuda {

// By ascending token: the sum of its biases, -inf where one of them bans it.
std::vector<TokenValue> folded_biases(std::span<const TokenValue> biases);

}  // namespace pagoda::cuda
