// The arguments of the last two operations: logits under a request's rules, and one token drawn
// from them. R rows, V vocabulary.
#pragma once

#include <cstdint>
#include <span>

#include "base/tensor.h"

namespace pagoda {

struct TokenValue {
  int32_t token;
  float value;
};
struct TokenCount {
  int32_t token;
  int32_t in_prompt;  // times that it stands in the prompt
  int32_t in_output;  // times that it was generated
};

constexpr float kBanBias = -100.f;  // a bias from here down bans its token

// One row of logits under its request's rules. All host; the spans outlive the call. Numbers are
// finite and within the limits of sampling/sampling_params.h.
struct SampleRow {
  float temperature = 0.f;  // 0: the largest logit, the lower id on a tie; filters don't matter
  int32_t top_k = 0;        // 0: all
  float top_p = 1.f;  // the fewest tokens, one or more, whose share of what top-k left reaches it
  float min_p = 0.f;  // tokens at least min_p times as likely as the likeliest
  float repetition_penalty = 1.f;  // Keskar et al. 2019: tokens of prompt and output
  float presence_penalty = 0.f;    // OpenAI: tokens of the output
  float frequency_penalty = 0.f;
  std::span<const TokenCount> counts = {};  // distinct tokens, where a penalty is set
  std::span<const TokenValue> bias = {};    // added; kBanBias and below: the logit becomes -inf
  std::span<const uint32_t> mask = {};      // [ceil(V / 32)] bits: 1 = allowed; empty: all
  uint64_t seed = 0;                        // of the draw, see base/random.h
  uint32_t choice = 0;
  uint64_t position = 0;
  int32_t num_logprobs = -1;  // -1: none; n: the chosen token's and the n largest
};

// Order: repetition, presence and frequency penalties, bias, mask. In place.
struct ProcessLogitsArgs {
  TensorView logits;                // [R, V] f32
  std::span<const SampleRow> rows;  // [R]
};

struct SampledToken {
  int32_t token = -1;
  bool has_nan = false;  // a logit was NaN or +inf, or all were banned: the token is -1
  float logprob = 0.f;   // of the processed logits, before temperature and filters; if asked for
};

// Order: temperature, top-k, top-p, min-p; then the token at which the cumulative probability, in
// descending order of logit and ascending id, passes uniform_draw(seed, choice, position).
struct SampleArgs {
  ConstTensorView logits;           // [R, V] f32, processed
  std::span<const SampleRow> rows;  // [R]
  std::span<SampledToken> out;      // [R], host
  std::span<TokenValue>
      top_logprobs;  // [R, max_logprobs], host, largest first; unused entries have token -1
  int32_t max_logprobs = 0;
};

}  // namespace pagoda
