#include "text/tokenizer.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "text/text_encoder.h"

namespace pagoda {
namespace {

// What model families call the token that ends a turn or a text, where it is a control token
// (llama.cpp, src/llama-vocab.cpp, and the models' generation_config.json).
constexpr std::array<std::string_view, 18> kEndNames = {"<|eot_id|>",
                                                        "<|im_end|>",
                                                        "<|end|>",
                                                        "<|return|>",
                                                        "<|call|>",
                                                        "<end_of_turn>",
                                                        "<turn|>",
                                                        "<|endoftext|>",
                                                        "<|eom_id|>",
                                                        "<EOT>",
                                                        "_<EOT>",
                                                        "[EOT]",
                                                        "[EOS]",
                                                        "<|end_of_text|>",
                                                        "<end_of_utterance>",
                                                        "<eos>",
                                                        "</s>",
                                                        "<｜end▁of▁sentence｜>"};

}  // namespace

VocabularySpec read_vocabulary_spec(const Metadata& metadata) {
  if (metadata.has("tokenizer.ggml.model")) return read_gguf_vocabulary(metadata);
  if (metadata.has("tokenizer.json")) return read_json_vocabulary(metadata);
  throw Error("tokenizer.missing",
              "the model has no tokenizer: neither tokenizer.ggml.model nor a tokenizer.json");
}

int64_t Tokenizer::vocabulary_bytes(const Metadata& metadata) {
  return pagoda::vocabulary_bytes(count_vocabulary(read_vocabulary_spec(metadata)));
}

Tokenizer::Tokenizer(const Metadata& metadata, Allocator& allocator)
    : Tokenizer(read_vocabulary_spec(metadata), allocator) {}

Tokenizer::Tokenizer(const VocabularySpec& spec, Allocator& allocator)
    : vocabulary_(spec, allocator),
      pre_tokenizer_(spec.pre_tokenizer),
      bpe_{.by_characters = spec.spelling == TokenSpelling::space_marker,
           .by_score = spec.merges_by_score,
           .whole_piece_first = spec.whole_piece_first,
           .fuse_unknown = spec.fuse_unknown,
           .unknown = spec.unknown},
      normalize_nfc_(spec.normalize_nfc),
      space_prefix_(spec.space_prefix),
      strips_first_space_(spec.strips_first_space),
      strips_(spec.strips),
      bos_(spec.bos),
      eos_(spec.eos),
      add_bos_(spec.add_bos) {
  collect_end_of_generation(spec);
}

void Tokenizer::collect_end_of_generation(const VocabularySpec& spec) {
  std::vector<int32_t>& ids = end_of_generation_;
  ids = spec.more_end_of_generation;
  for (const int32_t id : {spec.eos, spec.eot}) {
    if (id >= 0) ids.push_back(id);
  }
  for (const std::string_view name : kEndNames) {
    const int32_t id = vocabulary_.find(name, Vocabulary::Reach::special);
    if (id >= 0) ids.push_back(id);
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
}

bool Tokenizer::is_end_of_generation(int32_t id) const {
  return std::binary_search(end_of_generation_.begin(), end_of_generation_.end(), id);
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, EncodeOptions options) const {
  TextEncoder encoder(*this, options.add_bos);
  encoder.add(text, options.parse_special ? TextOrigin::markup : TextOrigin::plain);
  return encoder.finish(options.num_steps);
}

std::vector<int32_t> Tokenizer::encode_parts(std::span<const TextPart> parts,
                                             EncodeOptions options) const {
  TextEncoder encoder(*this, options.add_bos);
  for (const TextPart& part : parts) encoder.add(part.text, part.origin);
  return encoder.finish(options.num_steps);
}

std::string Tokenizer::decode(std::span<const int32_t> ids, SpecialTokens special) const {
  std::string text;
  for (const int32_t id : ids) {
    if (special == SpecialTokens::skip && is_control(id)) continue;
    text += token_bytes(id);
  }
  if (strips_first_space_ && text.starts_with(' ')) text.erase(0, 1);
  return text;
}

std::string_view Tokenizer::token_bytes(int32_t id) const {
  return vocabulary_.has(id) ? vocabulary_.bytes(id) : std::string_view();
}

int32_t Tokenizer::find(std::string_view bytes) const {
  const int32_t id = vocabulary_.find(bytes, Vocabulary::Reach::special);
  return id >= 0 ? id : vocabulary_.find(bytes, Vocabulary::Reach::text);
}

}  // namespace pagoda
