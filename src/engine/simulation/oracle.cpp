#include "engine/simulation/oracle.h"

#include <algorithm>
#include <map>

#include "base/random.h"

namespace pagoda::simulation {

uint64_t mix(uint64_t a, uint64_t b) {
  uint64_t x = a ^ (b + 0x9E3779B97F4A7C15 + (a << 6) + (a >> 2));
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

uint64_t record_of(uint64_t previous, int32_t token, int32_t group) {
  return mix(mix(previous, static_cast<uint64_t>(token)), static_cast<uint64_t>(group)) | 1;
}

uint64_t attend(uint64_t so_far, uint64_t record, int32_t position) {
  return mix(so_far, mix(record, static_cast<uint64_t>(position)));
}

SampledToken sampled(uint64_t attention, const SampleRow& row) {
  uint64_t x = attention;
  uint64_t counts = 0;  // in any order
  for (const TokenCount& count : row.counts)
    counts += mix(mix(count.token, count.in_prompt), count.in_output);
  x = mix(x, counts);
  if (row.temperature > 0.f)
    x = mix(x, static_cast<uint64_t>(uniform_draw(row.seed, row.choice, row.position) * 0x1p53));
  return {.token = static_cast<int32_t>(x % kVocabulary),
          .has_nan = false,
          .logprob = -static_cast<float>(x >> 40)};
}

namespace {

class Letters final : public TextStream {
 public:
  void append(int32_t token, std::string& text) override {
    text += held_;
    held_.clear();
    (token % 7 == 6 ? held_ : text) += static_cast<char>('a' + token % 20);
  }
  void finish(std::string& text) override {
    text += held_;
    held_.clear();
  }

 private:
  std::string held_;
};

// Where the first stop string starts in `text`, or npos.
size_t first_stop(const std::string& text, const std::vector<std::string>& stops) {
  size_t first = std::string::npos;
  for (const std::string& stop : stops) first = std::min(first, text.find(stop));
  return first;
}

SampleRow row_of(const Request& request,
                 int32_t choice,
                 uint64_t seed,
                 std::span<const int32_t> tokens,
                 std::vector<TokenCount>& counts) {
  counts.clear();
  const SamplingParams& params = request.sampling;
  if (params.has_penalties()) {
    std::map<int32_t, TokenCount> all;
    for (size_t i = 0; i < tokens.size(); i++) {
      TokenCount& count = all.try_emplace(tokens[i], TokenCount{tokens[i], 0, 0}).first->second;
      (i < request.prompt.size() ? count.in_prompt : count.in_output)++;
    }
    for (const auto& [token, count] : all) counts.push_back(count);
  }
  return {.temperature = params.temperature,
          .counts = counts,
          .bias = {},
          .mask = {},
          .seed = seed,
          .choice = static_cast<uint32_t>(choice),
          .position = tokens.size()};
}

}  // namespace

std::unique_ptr<TextStream> make_letters(const Request&) {
  return std::make_unique<Letters>();
}

Answer expected_answer(const Request& request,
                       int32_t choice,
                       uint64_t seed,
                       std::span<const int32_t> windows,
                       int32_t max_tokens,
                       int32_t max_model_len) {
  Answer answer;
  std::vector<int32_t> tokens = request.prompt;
  std::vector<std::vector<uint64_t>> records(windows.size());
  std::vector<TokenCount> counts;
  Letters letters;
  while (answer.reason == FinishReason::none) {
    uint64_t attention = 0;
    for (size_t group = 0; group < windows.size(); group++) {
      std::vector<uint64_t>& all = records[group];
      while (all.size() < tokens.size())
        all.push_back(record_of(
            all.empty() ? 0 : all.back(), tokens[all.size()], static_cast<int32_t>(group)));
      const auto length = static_cast<int32_t>(all.size());
      for (int32_t i = windows[group] == 0 ? 0 : std::max(0, length - windows[group]); i < length;
           i++)
        attention = attend(attention, all[i], i);
    }
    const SampledToken next = sampled(attention, row_of(request, choice, seed, tokens, counts));
    tokens.push_back(next.token);
    answer.tokens.push_back(next.token);
    answer.logprobs.push_back(next.logprob);
    const bool is_stop = (next.token == kEos && !request.ignores_eos) ||
                         std::ranges::count(request.stop_ids, next.token) > 0;
    const bool is_last =
        is_stop || std::ssize(answer.tokens) == max_tokens || std::ssize(tokens) == max_model_len;
    if (!is_stop) letters.append(next.token, answer.text);
    if (is_last) letters.finish(answer.text);
    if (is_last) answer.reason = is_stop ? FinishReason::stop : FinishReason::length;
    const size_t cut = first_stop(answer.text, request.stop);
    if (cut == std::string::npos) continue;
    answer.text.resize(cut);
    answer.reason = FinishReason::stop;
  }
  return answer;
}

}  // namespace pagoda::simulation
