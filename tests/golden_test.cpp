// Right, by someone else's word: llama.cpp's answers and perplexity on the same files
// (tools/make_golden_answers.py and tools/make_golden_perplexity.py made the golden files).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "app/model_path.h"
#include "app/perplexity.h"
#include "app/sequence_runner.h"

namespace pagoda {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr double kClearGap = 0.3;  // of the reference's two largest logits
constexpr double kMinimumRest = 1e-7;
constexpr double kPerplexityTolerance = 0.005;

const fs::path kGolden = fs::path(PAGODA_SOURCE_DIR) / "tests" / "golden";

json golden(const std::string& name) {
  std::ifstream in(kGolden / name);
  return json::parse(in);
}

std::unique_ptr<Deployment> deploy(const std::string& file, int32_t length) {
  const fs::path path = models_folder() / file;
  if (!fs::exists(path)) return nullptr;
  EngineSettings settings;
  settings.max_model_len = length;
  settings.max_num_seqs = 16;
  settings.kv_cache_dtype = "f16";  // as the reference's
  return std::make_unique<Deployment>(open_model(path), settings, nullptr);
}

// KL divergence of the engine from the reference, estimated from the stored tokens (see
// make_golden_answers.py).
double kl_of(const json& step, std::span<const float> logits) {
  double kl = 0, p_sum = 0, q_sum = 0;
  for (size_t i = 0; i < step["ids"].size(); i++) {
    const double log_p = step["logprobs"][i],
                 log_q = -negative_log_likelihood(logits, step["ids"][i]);
    kl += std::exp(log_p) * (log_p - log_q);
    p_sum += std::exp(log_p);
    q_sum += std::exp(log_q);
  }
  const double p_rest = std::max(1 - p_sum, kMinimumRest),
               q_rest = std::max(1 - q_sum, kMinimumRest);
  return kl + p_rest * std::log(p_rest / q_rest);
}

struct Agreement {
  double kl_sum = 0;
  int64_t num_steps = 0;
  std::vector<std::string> wrong_above_gap;
};

// Teacher-forced: the prompt and the reference's own answer in one pass.
void compare(SequenceRunner& runner, const json& prompt, Agreement& agreement) {
  std::vector<int32_t> tokens = prompt["prompt_ids"];
  const std::vector<int32_t> answer = prompt["answer_ids"];
  const auto first = int32_t(tokens.size()) - 1;
  tokens.insert(tokens.end(), answer.begin(), answer.end());
  runner.reset();
  int32_t begin = 0;
  for (size_t step = 0; step < answer.size();) {
    const int32_t count = std::min(runner.max_step(), int32_t(tokens.size()) - begin);
    runner.append(std::span(tokens).subspan(begin, count));
    for (; step < answer.size() && first + int32_t(step) < begin + count; step++) {
      const int32_t row = first + int32_t(step) - begin;
      const std::span<const float> logits = runner.logits(std::span(&row, 1));
      const auto best = int32_t(std::max_element(logits.begin(), logits.end()) - logits.begin());
      const double gap = std::min(prompt["gaps"][step].get<double>(),
                                  prompt["float32"]["margins"][step].get<double>());
      if (gap > kClearGap && best != prompt["steps"][step]["ids"][0])
        agreement.wrong_above_gap.push_back(
            fmt::format("{} step {} gap {}", std::string(prompt["name"]), step, gap));
      agreement.kl_sum += kl_of(prompt["steps"][step], logits);
      agreement.num_steps++;
    }
    begin += count;
  }
}

void expect_answers_of(const std::string& name) {
  const json reference = golden("answers_" + name + ".json");
  const auto deployment = deploy(reference["model"], 1024);
  if (deployment == nullptr) GTEST_SKIP() << "scripts/fetch-model gets " << reference["model"];
  SequenceRunner runner(*deployment, 1024);
  Agreement agreement;
  for (const json& prompt : reference["prompts"]) compare(runner, prompt, agreement);
  const double kl = agreement.kl_sum / double(agreement.num_steps);
  const double own = reference["agreement"]["mean_kl_top"];
  std::printf("%s: mean KL %.5f over %ld steps (llama.cpp against float32: %.5f)\n",
              name.c_str(),
              kl,
              long(agreement.num_steps),
              own);
  EXPECT_GE(reference["prompts"].size(), 20u);
  EXPECT_EQ(agreement.wrong_above_gap, std::vector<std::string>());
  EXPECT_LT(kl, 2 * own);  // as near as two right engines are to each other
}

TEST(GoldenAnswers, of_smollm2_are_llama_cpps) {
  expect_answers_of("smollm2");
}
TEST(GoldenAnswers, of_gemma3_are_llama_cpps) {
  expect_answers_of("gemma3");
}

void expect_perplexity_of(const std::string& name) {
  const json reference = golden("perplexity.json");
  const json& model = reference["models"][name];
  const int32_t window = reference["context"];
  const auto deployment = deploy(model["model"], window);
  if (deployment == nullptr) GTEST_SKIP() << "scripts/fetch-model gets " << model["model"];
  std::ifstream in(kGolden / std::string(reference["text"]), std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const Tokenizer& tokenizer = deployment->tokenizer();
  const auto tokens = tokenizer.encode(text, {.add_bos = tokenizer.adds_bos()});
  const PerplexityResult result = perplexity(*deployment, tokens, window, nullptr);
  EXPECT_EQ(result.num_windows, model["windows"]);
  EXPECT_EQ(result.num_scored, model["tokens"]);
  const double expected = model["perplexity"];
  std::printf("%s: perplexity %.4f (llama.cpp: %.4f)\n", name.c_str(), result.perplexity, expected);
  EXPECT_NEAR(result.perplexity / expected, 1, kPerplexityTolerance);
}

TEST(GoldenPerplexity, of_smollm2_is_llama_cpps) {
  expect_perplexity_of("smollm2");
}
TEST(GoldenPerplexity, of_gemma3_is_llama_cpps) {
  expect_perplexity_of("gemma3");
}

}  // namespace
}  // namespace pagoda
