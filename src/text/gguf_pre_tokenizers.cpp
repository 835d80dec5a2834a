// The pre-tokenizers that GGUF files name, as stages. The expressions are those of the models'
// own tokenizer.json files; llama.cpp's names for them are in its src/llama-vocab.cpp.
#include <algorithm>
#include <array>
#include <span>

#include "text/pre_tokenizer.h"

namespace pagoda {
namespace {

using Stage = PreTokenizerStage;
using Kind = PreTokenizerStage::Kind;

constexpr std::array<std::string_view, 15> kGpt2 = {"gpt-2",
                                                    "phi-2",
                                                    "jina-es",
                                                    "jina-de",
                                                    "gigachat",
                                                    "jina-v2-es",
                                                    "jina-v2-de",
                                                    "a.x-4.0",
                                                    "mellum",
                                                    "modern-bert",
                                                    "mpt",
                                                    "olmo",
                                                    "jais",
                                                    "trillion",
                                                    "granite-docling"};
constexpr std::array<std::string_view, 8> kSingleDigits = {
    "smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b", "mellum2"};
constexpr std::array<std::string_view, 9> kLlama3 = {"llama3",
                                                     "llama-v3",
                                                     "llama-bpe",
                                                     "falcon3",
                                                     "falcon-h1",
                                                     "pixtral",
                                                     "midm-2.0",
                                                     "lfm2",
                                                     "jina-v5-nano"};
constexpr std::array<std::string_view, 5> kLlama3Plain = {
    "dbrx", "smaug-bpe", "chatglm-bpe", "glm4", "glm5"};
constexpr std::array<std::string_view, 8> kQwen2 = {"qwen2",
                                                    "deepseek-r1-qwen",
                                                    "kormo",
                                                    "f2llmv2",
                                                    "stablelm2",
                                                    "hunyuan",
                                                    "grok-2",
                                                    "solar-open"};
constexpr std::array<std::string_view, 4> kDeepseekV3 = {
    "deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"};
constexpr std::array<std::string_view, 5> kGpt4o = {
    "gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"};

constexpr const char* kThreeDigits = "\\p{N}{1,3}";
constexpr const char* kJapaneseRuns = "[一-龥぀-ゟ゠-ヿ]+";
constexpr const char* kDeepseekWords =
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+"
    "|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+"
    "|\\s+(?!\\S)|\\s+";
constexpr const char* kGpt4oWords =
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+"
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    "|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*"
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    "|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
constexpr const char* kTekkenWords =
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+"
    "|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*"
    "|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
constexpr const char* kBloomWords = " ?[^(\\s|.,!?…。，、।۔،)]+";

bool is_one_of(std::span<const std::string_view> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

Stage regex(const char* pattern) {
  return {.kind = Kind::regex, .pattern = pattern};
}

}  // namespace

GgufPreTokenizer gguf_pre_tokenizer(std::string_view name) {
  const Stage gpt2{.kind = Kind::gpt2};
  const Stage llama3{.kind = Kind::llama3};
  const Stage qwen2{.kind = Kind::llama3, .max_digits = 1};
  if (is_one_of(kGpt2, name)) return {.spec = {{gpt2}}};
  if (is_one_of(kSingleDigits, name)) {
    return {.spec = {{{.kind = Kind::gpt2, .single_digits = true}}}};
  }
  if (is_one_of(kLlama3, name)) {
    return {.spec = {{llama3}}, .whole_piece_first = true, .add_bos = true};
  }
  if (is_one_of(kLlama3Plain, name)) {
    return {.spec = {{llama3}}, .whole_piece_first = name == "glm4" || name == "glm5"};
  }
  if (is_one_of(kQwen2, name)) return {.spec = {{qwen2}}};
  if (name == "qwen35") {
    return {.spec = {{{.kind = Kind::llama3, .max_digits = 1, .marks_in_words = true}}}};
  }
  if (name == "falcon") {
    return {.spec = {{regex("[\\p{P}\\$\\+<=>\\^~\\|`]+"), gpt2, regex("[0-9][0-9][0-9]")}}};
  }
  if (is_one_of(kDeepseekV3, name)) {
    return {.spec = {{regex(kThreeDigits), regex(kJapaneseRuns), regex(kDeepseekWords)}}};
  }
  if (name == "deepseek-coder") {
    return {.spec = {{regex("[\r\n]"),
                      regex("\\s?\\p{L}+"),
                      regex("\\s?\\p{P}+"),
                      regex("[一-龥ࠀ-一가-퟿]+"),
                      regex("\\p{N}")}}};
  }
  if (is_one_of(kGpt4o, name)) return {.spec = {{regex(kGpt4oWords)}}};
  if (name == "tekken") {
    return {.spec = {{regex(kTekkenWords)}}, .whole_piece_first = true, .add_bos = true};
  }
  if (name == "bloom" || name == "poro-chat" || name == "gpt3-finnish") {
    return {.spec = {{regex(kBloomWords)}}};
  }
  if (name == "viking") return {.spec = {{regex(kBloomWords), regex("\\p{N}")}}};
  return {.spec = {{regex("[\\p{P}\\$\\+<=>\\^~\\|]+"),
                    gpt2,
                    {.kind = Kind::digits},
                    regex("[0-9][0-9][0-9]")}},
          .known = name == "default"};
}

}  // namespace pagoda
