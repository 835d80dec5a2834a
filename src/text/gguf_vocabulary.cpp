// Reads GGUF's `tokenizer.ggml.*` keys. Defaults are llama.cpp's (src/llama-vocab.cpp).
#include <variant>

#include "base/error.h"
#include "base/log.h"
#include "text/token_spelling.h"
#include "text/vocabulary_spec.h"

namespace pagoda {
namespace {

constexpr std::string_view kPrefix = "tokenizer.ggml.";

template <typename T>
const T* find_value(const Metadata& metadata, std::string_view key, std::string_view type) {
  const auto it = metadata.all().find(std::string(kPrefix) + std::string(key));
  if (it == metadata.all().end()) return nullptr;
  const T* value = std::get_if<T>(&it->second);
  if (value == nullptr) throw Error("tokenizer.invalid", "{}{}: not {}", kPrefix, key, type);
  return value;
}

bool read_bool(const Metadata& metadata, std::string_view key, bool otherwise) {
  const bool* value = find_value<bool>(metadata, key, "a boolean");
  return value != nullptr ? *value : otherwise;
}

std::string_view read_string(const Metadata& metadata, std::string_view key) {
  const auto* value = find_value<std::string_view>(metadata, key, "a string");
  return value != nullptr ? *value : std::string_view();
}

// A token id; 2^32 - 1 and -1 stand for none.
int32_t read_id(const Metadata& metadata, std::string_view key, int32_t otherwise, size_t tokens) {
  const auto* value = find_value<int64_t>(metadata, key, "an integer");
  if (value == nullptr) return otherwise;
  if (*value == -1 || *value == 0xFFFFFFFF) return -1;
  if (*value < 0 || *value >= static_cast<int64_t>(tokens)) {
    throw Error(
        "tokenizer.invalid", "{}{}: id {} is not one of {} tokens", kPrefix, key, *value, tokens);
  }
  return static_cast<int32_t>(*value);
}

void read_tokens(const Metadata& metadata, VocabularySpec& spec) {
  const auto* tokens =
      find_value<std::vector<std::string_view>>(metadata, "tokens", "an array of strings");
  if (tokens == nullptr || tokens->empty()) {
    throw Error("tokenizer.invalid", "{}tokens: the file holds no tokens", kPrefix);
  }
  spec.tokens = *tokens;
  spec.kinds.assign(tokens->size(), TokenKind::normal);
  const auto* types =
      find_value<std::vector<int64_t>>(metadata, "token_type", "an array of integers");
  if (types == nullptr) return;
  if (types->size() != tokens->size()) {
    throw Error("tokenizer.invalid",
                "{}token_type: {} types for {} tokens",
                kPrefix,
                types->size(),
                tokens->size());
  }
  for (size_t id = 0; id < types->size(); id++) {
    const int64_t type = (*types)[id];
    if (type < 0 || type > static_cast<int64_t>(TokenKind::byte)) {
      throw Error("tokenizer.invalid", "{}token_type: token {} has type {}", kPrefix, id, type);
    }
    if (type == 0) continue;  // undefined: taken as normal
    spec.kinds[id] = static_cast<TokenKind>(type);
    if (spec.kinds[id] == TokenKind::byte && parse_byte_token((*tokens)[id]) < 0) {
      throw Error("tokenizer.invalid",
                  "{}tokens: token {} (\"{}\") has the type of a byte but is not <0xNN>",
                  kPrefix,
                  id,
                  (*tokens)[id]);
    }
  }
}

void read_scores(const Metadata& metadata, VocabularySpec& spec) {
  const auto* scores = find_value<std::vector<double>>(metadata, "scores", "an array of floats");
  const size_t count = scores != nullptr ? scores->size() : 0;
  if (count != spec.tokens.size()) {
    throw Error("tokenizer.invalid",
                "{}scores: {} scores for {} tokens",
                kPrefix,
                count,
                spec.tokens.size());
  }
  spec.scores.assign(scores->begin(), scores->end());
}

void read_merges(const Metadata& metadata, VocabularySpec& spec) {
  const auto* merges =
      find_value<std::vector<std::string_view>>(metadata, "merges", "an array of strings");
  if (merges == nullptr) {
    throw Error("tokenizer.invalid", "{}merges: a \"gpt2\" tokenizer needs them", kPrefix);
  }
  spec.merges.reserve(merges->size());
  for (const std::string_view merge : *merges) {
    // The first symbol has at least one byte, which may be a space.
    const size_t space = merge.find(' ', 1);
    if (space == std::string_view::npos || space + 1 == merge.size()) {
      throw Error("tokenizer.invalid",
                  "{}merges: rule {} (\"{}\") is not two symbols and a space between",
                  kPrefix,
                  spec.merges.size(),
                  merge);
    }
    spec.merges.emplace_back(merge.substr(0, space), merge.substr(space + 1));
  }
}

void read_byte_level(const Metadata& metadata, VocabularySpec& spec) {
  spec.spelling = TokenSpelling::byte_level;
  read_merges(metadata, spec);
  const std::string_view name = read_string(metadata, "pre");
  GgufPreTokenizer pre = gguf_pre_tokenizer(name.empty() ? "default" : name);
  if (!pre.known) {
    log_warning(
        "tokenizer: the pre-tokenizer \"{}\" is not known; the default one may cut some text "
        "otherwise than the model was trained with",
        name);
  }
  spec.pre_tokenizer = std::move(pre.spec);
  spec.whole_piece_first = pre.whole_piece_first;
  spec.add_bos = pre.add_bos;
}

void read_sentencepiece(const Metadata& metadata, VocabularySpec& spec) {
  spec.spelling = TokenSpelling::space_marker;
  spec.merges_by_score = true;
  read_scores(metadata, spec);
  spec.space_prefix =
      read_bool(metadata, "add_space_prefix", true) ? SpacePrefix::always : SpacePrefix::never;
  spec.strips_first_space = spec.space_prefix != SpacePrefix::never;
  spec.add_bos = true;
  const auto count = static_cast<int32_t>(spec.tokens.size());
  spec.unknown = 0;
  spec.bos = count > 1 ? 1 : -1;
  spec.eos = count > 2 ? 2 : -1;
}

}  // namespace

VocabularySpec read_gguf_vocabulary(const Metadata& metadata) {
  VocabularySpec spec;
  const std::string_view model = read_string(metadata, "model");
  if (model != "gpt2" && model != "llama") {
    throw Error("tokenizer.unsupported",
                "{}model: \"{}\" is not supported; \"gpt2\" and \"llama\" are",
                kPrefix,
                model);
  }
  read_tokens(metadata, spec);
  if (model == "gpt2") {
    read_byte_level(metadata, spec);
  } else {
    read_sentencepiece(metadata, spec);
  }
  const size_t count = spec.tokens.size();
  spec.bos = read_id(metadata, "bos_token_id", spec.bos, count);
  spec.eos = read_id(metadata, "eos_token_id", spec.eos, count);
  spec.eot = read_id(metadata, "eot_token_id", -1, count);
  const int32_t unknown = read_id(metadata, "unknown_token_id", spec.unknown, count);
  if (spec.spelling == TokenSpelling::space_marker) spec.unknown = unknown;
  const int32_t eom = read_id(metadata, "eom_token_id", -1, count);
  if (eom >= 0) spec.more_end_of_generation.push_back(eom);
  spec.add_bos = read_bool(metadata, "add_bos_token", spec.add_bos) && spec.bos >= 0;
  return spec;
}

}  // namespace pagoda
