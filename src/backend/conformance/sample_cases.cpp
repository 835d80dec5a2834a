// process_logits and sample.
#include <cmath>
#include <limits>

#include "backend/conformance/conformance.h"

namespace pagoda::conformance {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr int64_t kRows = 24;

// Rows that a request may ask for, and what their spans point into.
struct Rules {
  std::vector<SampleRow> rows;
  std::vector<std::vector<TokenCount>> counts;
  std::vector<std::vector<TokenValue>> bias;
  std::vector<std::vector<uint32_t>> masks;
};

Rules random_rules(Session& s, int64_t vocabulary) {
  Rules rules;
  rules.counts.resize(kRows);
  rules.bias.resize(kRows);
  rules.masks.resize(kRows);
  for (int64_t r = 0; r < kRows; r++) {
    SampleRow row;
    if (r % 2 == 1) {
      row.repetition_penalty = s.uniform(0.5f, 2.f);
      row.presence_penalty = s.uniform(-2.f, 2.f);
      row.frequency_penalty = s.uniform(-2.f, 2.f);
      for (int64_t token = 0; token < vocabulary; token += s.integer(1, 9))
        rules.counts[r].push_back(
            {int32_t(token), int32_t(s.integer(0, 3)), int32_t(s.integer(0, 3))});
      row.counts = rules.counts[r];
    }
    if (r % 3 == 1) {
      for (int64_t token = 0; token < vocabulary; token += s.integer(1, 30))
        rules.bias[r].push_back({int32_t(token), s.integer(0, 3) == 0 ? -100.f : s.uniform(-5, 5)});
      for (int n = 0; n < 8; n++) {  // a token may stand in the list twice
        const TokenValue again = rules.bias[r][s.integer(0, std::ssize(rules.bias[r]) - 1)];
        rules.bias[r].push_back({again.token, s.uniform(-5, 5)});
      }
      row.bias = rules.bias[r];
    }
    if (r % 4 == 1) {
      rules.masks[r].resize(ceil_div(vocabulary, 32));
      for (uint32_t& word : rules.masks[r]) word = uint32_t(s.random()());
      row.mask = rules.masks[r];
    }
    rules.rows.push_back(row);
  }
  return rules;
}

void process_case(Session& s, int64_t vocabulary) {
  const Rules rules = random_rules(s, vocabulary);
  const float size = 4;
  std::vector<float> values = s.normal_values(kRows * vocabulary, size);
  for (int64_t r = 0; r < kRows; r++)  // a ban holds whatever the logit
    for (const TokenValue& bias : rules.bias[r])
      if (bias.value <= kBanBias) values[r * vocabulary + bias.token] = kInfinity;
  Array logits = s.array(kRows, vocabulary, values, Session::Precision::f32);
  s.check({.what = "process_logits",
           .rows = kRows,
           .call =
               [&](Backend& backend, Side side, int64_t begin, int64_t end) {
                 backend.process_logits(
                     {.logits = logits.on(side).slice_rows(begin, end - begin),
                      .rows = std::span(rules.rows).subspan(begin, end - begin)});
               },
           .outputs = {{&logits, std::vector<double>(kRows, size)}},
           .tolerance = kLogits});
}

struct Filters {
  float temperature = 1;
  int32_t top_k = 0;
  float top_p = 1;
  float min_p = 0;
  int32_t num_logprobs = -1;
};

struct Drawn {
  std::vector<SampledToken> tokens = std::vector<SampledToken>(kRows);
  std::vector<TokenValue> top;
};

enum class Logits : uint8_t { normal, peaked, flat, ties, equal, broken };

std::vector<float> random_logits(Session& s, int64_t vocabulary, Logits kind) {
  std::vector<float> logits =
      s.normal_values(kRows * vocabulary, kind == Logits::peaked ? 8.f : 3.f);
  for (float& logit : logits) {
    if (kind == Logits::flat) logit *= 1e-3f;
    if (kind == Logits::ties) logit = std::round(logit);
    if (kind == Logits::equal) logit = 1.5f;
  }
  if (kind != Logits::broken) return logits;
  // One NaN, one infinity, all banned, all banned but one, many banned.
  for (int64_t r = 0; r < kRows; r++) {
    float* row = &logits[r * vocabulary];
    const int64_t at = s.integer(0, vocabulary - 1);
    if (r % 6 == 0) row[at] = std::numeric_limits<float>::quiet_NaN();
    if (r % 6 == 1) row[at] = kInfinity;
    if (r % 6 == 2 || r % 6 == 3) std::fill(row, row + vocabulary, -kInfinity);
    if (r % 6 == 3) row[at] = -3;
    if (r % 6 == 4)
      for (int64_t i = 0; i < vocabulary; i++)
        if (s.integer(0, 2) != 0) row[i] = -kInfinity;
  }
  return logits;
}

Drawn draw(Backend& backend,
           TensorView logits,
           std::span<const SampleRow> rows,
           int32_t max_logprobs,
           int64_t rows_per_call) {
  Drawn drawn;
  drawn.top.assign(kRows * max_logprobs, {-7, 0});
  for (int64_t begin = 0; begin < kRows; begin += rows_per_call) {
    const int64_t count = std::min(rows_per_call, kRows - begin);
    backend.sample(
        {.logits = logits.slice_rows(begin, count),
         .rows = rows.subspan(begin, count),
         .out = std::span(drawn.tokens).subspan(begin, count),
         .top_logprobs = std::span(drawn.top).subspan(begin * max_logprobs, count * max_logprobs),
         .max_logprobs = max_logprobs});
    backend.synchronize();
  }
  return drawn;
}

bool equal(const Drawn& a, const Drawn& b) {
  for (size_t i = 0; i < a.tokens.size(); i++)
    if (a.tokens[i].token != b.tokens[i].token || a.tokens[i].has_nan != b.tokens[i].has_nan ||
        a.tokens[i].logprob != b.tokens[i].logprob)
      return false;
  for (size_t i = 0; i < a.top.size(); i++)
    if (a.top[i].token != b.top[i].token || a.top[i].value != b.top[i].value) return false;
  return true;
}

// A draw may fall to the neighbouring token where the uniform number lies within rounding of the
// border between two: one in a case, hardly ever.
void compare_draws(Session& s, const Drawn& out, const Drawn& expected) {
  int other_tokens = 0;
  for (int64_t r = 0; r < kRows; r++) {
    const SampledToken &a = out.tokens[r], &b = expected.tokens[r];
    if (a.has_nan != b.has_nan || (a.token < 0) != (b.token < 0))
      s.fail(fmt::format(
          "row {}: token {} nan {}, reference {} {}", r, a.token, a.has_nan, b.token, b.has_nan));
    else if (a.token != b.token && ++other_tokens > 1)
      s.fail(fmt::format("row {}: token {}, reference {}", r, a.token, b.token));
    else if (a.token == b.token && !(std::abs(a.logprob - b.logprob) <= kLogprob))
      s.fail(fmt::format("row {}: logprob {}, reference {}", r, a.logprob, b.logprob));
  }
  for (size_t i = 0; i < out.top.size(); i++)
    if (out.top[i].token != expected.top[i].token ||
        !(std::abs(out.top[i].value - expected.top[i].value) <= kLogprob))
      s.fail(fmt::format("top {}: {} {}, reference {} {}",
                         i,
                         out.top[i].token,
                         out.top[i].value,
                         expected.top[i].token,
                         expected.top[i].value));
}

void sample_case(Session& s, int64_t vocabulary, Logits kind, const Filters& filters) {
  Array logits =
      s.array(kRows, vocabulary, random_logits(s, vocabulary, kind), Session::Precision::f32);
  std::vector<SampleRow> rows;
  for (int64_t r = 0; r < kRows; r++)
    rows.push_back({.temperature = filters.temperature,
                    .top_k = filters.top_k,
                    .top_p = filters.top_p,
                    .min_p = filters.min_p,
                    .seed = s.random()(),
                    .choice = uint32_t(r % 3),
                    .position = uint64_t(s.integer(0, 1 << 20)),
                    .num_logprobs = filters.num_logprobs});
  const int32_t max_logprobs = std::max(0, filters.num_logprobs);
  const Drawn expected =
      draw(s.on(Side::reference), logits.on(Side::reference), rows, max_logprobs, kRows);
  const Drawn out = draw(*s.devices()[0], logits.on(Side::device), rows, max_logprobs, kRows);
  compare_draws(s, out, expected);
  for (const auto& device : s.devices())
    for (const int64_t rows_per_call : {1, 5})
      if (!equal(out, draw(*device, logits.on(Side::device), rows, max_logprobs, rows_per_call)))
        s.fail(fmt::format("{} rows a call draw other tokens", rows_per_call));
}

}  // namespace

void add_sample_cases(std::vector<Case>& cases) {
  for (const int64_t vocabulary : {1, 31, 33, 1000, 5003})
    cases.push_back({fmt::format("process_logits_{}", vocabulary),
                     [=](Session& s) { process_case(s, vocabulary); }});
  constexpr std::string_view kKinds[] = {"normal", "peaked", "flat", "ties", "equal", "broken"};
  const std::pair<std::string_view, Filters> kinds_of_draw[] = {
      {"greedy", {.temperature = 0}},
      {"greedy_logprobs", {.temperature = 0, .num_logprobs = 5}},
      {"plain", {}},
      {"cool", {.temperature = 0.3f}},
      {"hot_logprobs", {.temperature = 2, .num_logprobs = 20}},
      {"nearly_greedy", {.temperature = 1e-5f}},
      {"top_k", {.top_k = 7}},
      {"top_1", {.top_k = 1}},
      {"top_p", {.top_p = 0.8f}},
      {"top_p_0", {.top_p = 0}},
      {"top_p_nearly_1", {.top_p = 0.9999f}},
      {"min_p", {.min_p = 0.1f}},
      {"min_p_1", {.min_p = 1}},
      {"all",
       {.temperature = 0.7f, .top_k = 40, .top_p = 0.95f, .min_p = 0.05f, .num_logprobs = 0}}};
  for (const int64_t vocabulary : {1, 33, 3001})
    for (const Logits kind : {Logits::normal,
                              Logits::peaked,
                              Logits::flat,
                              Logits::ties,
                              Logits::equal,
                              Logits::broken})
      for (const auto& [what, filters] : kinds_of_draw)
        cases.push_back(
            {fmt::format("sample_{}_{}_{}", vocabulary, kKinds[int(kind)], what),
             [=, filters = filters](Session& s) { sample_case(s, vocabulary, kind, filters); }});
  // A nucleus of thousands of tokens.
  cases.push_back({"sample_20011_wide_nucleus", [](Session& s) {
                     sample_case(s, 20011, Logits::normal, {.temperature = 2, .top_p = 0.99f});
                   }});
}

}  // namespace pagoda::conformance
