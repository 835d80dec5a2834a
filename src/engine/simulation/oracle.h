// The fake model of the simulation, and what it must answer: the same function computed once
// through block tables (FakeExecutor) and once from the plain list of tokens (expected_answer).
//
// A token's record in the KV cache is a hash of all tokens up to it. A row "attends" by folding the
// records that it can see, and the next token is a function of that fold, the counts of earlier
// tokens and the draw of (seed, choice, position): any slot that holds the wrong thing changes it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/request.h"

namespace pagoda::simulation {

constexpr int32_t kVocabulary = 40;
constexpr int32_t kEos = 0;

uint64_t mix(uint64_t a, uint64_t b);
// The record of `token` after a token whose record is `previous` (0: none), in a layer group.
uint64_t record_of(uint64_t previous, int32_t token, int32_t group);
// One visible record joins a row's attention.
uint64_t attend(uint64_t so_far, uint64_t record, int32_t position);
SampledToken sampled(uint64_t attention, const SampleRow& row);

// Tokens are letters; some show only once the next token is there, as parts of a character do.
std::unique_ptr<TextStream> make_letters(const Request& request);

struct Answer {
  std::vector<int32_t> tokens;
  std::vector<float> logprobs;
  std::string text;
  FinishReason reason = FinishReason::none;
};
Answer expected_answer(const Request& request,
                       int32_t choice,
                       uint64_t seed,
                       std::span<const int32_t> windows,
                       int32_t max_tokens,
                       int32_t max_model_len);

}  // namespace pagoda::simulation
