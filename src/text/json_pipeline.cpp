#include <algorithm>

#include "base/error.h"
#include "text/json_vocabulary.h"

namespace pagoda {
namespace {

using nlohmann::json;
using Stage = PreTokenizerStage;

constexpr std::string_view kMarker = "\xE2\x96\x81";

[[noreturn]] void throw_unsupported(std::string_view component, std::string_view what) {
  throw Error("tokenizer.unsupported", "tokenizer.json: {}: {} is not supported", component, what);
}

// A base64 text that starts with the little-endian size of a trie that fits in it.
void check_charsmap(const json& normalizer) {
  const std::string text = string_member(normalizer, "precompiled_charsmap", "normalizer");
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::vector<uint8_t> bytes;
  uint32_t bits = 0;
  int num_bits = 0;
  for (const char c : std::string_view(text).substr(0, text.find('='))) {
    const size_t digit = kDigits.find(c);
    if (digit == std::string_view::npos) {
      throw Error("tokenizer.invalid", "tokenizer.json: normalizer: the charsmap is not base64");
    }
    bits = bits << 6 | static_cast<uint32_t>(digit);
    num_bits += 6;
    if (num_bits >= 8) bytes.push_back(static_cast<uint8_t>(bits >> (num_bits -= 8)));
  }
  uint64_t trie = 0;
  for (size_t i = 0; i < 4 && bytes.size() >= 4; i++) trie |= uint64_t{bytes[i]} << 8 * i;
  if (bytes.size() < 4 || trie % 4 != 0 || trie > bytes.size() - 4) {
    throw Error("tokenizer.invalid",
                "tokenizer.json: normalizer: the charsmap of {} bytes names a trie of {}",
                bytes.size(),
                trie);
  }
}

// A pattern is {"String": text} or {"Regex": expression}.
std::string read_pattern(const json& owner, std::string_view kind, std::string_view component) {
  const json& pattern = member(owner, "pattern");
  const json& text = member(pattern, kind);
  return text.is_string() ? text.get<std::string>()
         : member(pattern, kind == "String" ? "Regex" : "String").is_string()
             ? std::string()
             : throw Error("tokenizer.invalid",
                           "tokenizer.json: {}: a pattern is neither String nor Regex",
                           component);
}

// Whether the text's spaces become U+2581.
bool read_normalizers(const json& file, VocabularySpec& spec) {
  constexpr std::string_view kName = "normalizer";
  bool marks_spaces = false;
  for (const json* n : flatten_sequence(member(file, kName), "normalizers", kName)) {
    const std::string type = string_member(*n, "type", kName);
    if (type == "NFC") {
      if (marks_spaces) throw_unsupported(kName, "NFC after Replace");
      spec.normalize_nfc = true;
    } else if (type == "Prepend") {
      if (string_member(*n, "prepend", kName) != kMarker) throw_unsupported(kName, "this Prepend");
      spec.space_prefix = SpacePrefix::always;
    } else if (type == "Replace") {
      const bool marks = read_pattern(*n, "String", kName) == " " &&
                         string_member(*n, "content", kName) == kMarker;
      if (!marks) throw_unsupported(kName, "a Replace of anything but spaces by U+2581");
      marks_spaces = true;
    } else {
      if (type == "Precompiled") check_charsmap(*n);
      throw_unsupported(kName, type);
    }
  }
  if (spec.space_prefix != SpacePrefix::never && !marks_spaces) {
    throw_unsupported(kName, "Prepend without Replace");
  }
  return marks_spaces;
}

Stage::Matches read_behaviour(const json& split, std::string_view component) {
  const std::string behaviour = string_member(split, "behavior", component);
  const bool invert = flag_member(split, "invert", false, component);
  // What lies between matches stays: text is never dropped. With `invert` the pieces are the same
  // where both sides stand alone.
  if (behaviour == "Isolated" || (behaviour == "Removed" && invert))
    return Stage::Matches::isolated;
  if (!invert && behaviour == "MergedWithPrevious") return Stage::Matches::merged_with_previous;
  if (!invert && behaviour == "MergedWithNext") return Stage::Matches::merged_with_next;
  if (!invert && behaviour == "Contiguous") return Stage::Matches::contiguous;
  throw_unsupported(component, "Split with the behaviour " + behaviour);
}

std::string quote_pattern(std::string_view text) {
  std::string quoted;
  for (const char c : text) {
    if (static_cast<uint8_t>(c) < 0x80 && !std::isalnum(static_cast<uint8_t>(c))) quoted += '\\';
    quoted += c;
  }
  return quoted;
}

void read_split(const json& split, bool marks_spaces, VocabularySpec& spec) {
  constexpr std::string_view kName = "pre_tokenizer";
  const std::string text = read_pattern(split, "String", kName);
  Stage stage;
  if (marks_spaces) {
    if (text == " ") return;  // there are none left
    if (text != kMarker || read_behaviour(split, kName) != Stage::Matches::merged_with_next) {
      throw_unsupported(kName, "this Split of text whose spaces are U+2581");
    }
    stage.kind = Stage::Kind::marker;
  } else if (!text.empty()) {
    stage = {.kind = Stage::Kind::regex, .pattern = quote_pattern(text)};
    stage.matches = read_behaviour(split, kName);
  } else {
    stage = stage_for_pattern(read_pattern(split, "Regex", kName));
    const Stage::Matches matches = read_behaviour(split, kName);
    // A scanner's matches leave nothing between them, so that only `isolated` is different pieces.
    if (stage.kind != Stage::Kind::regex && matches != Stage::Matches::isolated) {
      stage = {.kind = Stage::Kind::regex, .pattern = read_pattern(split, "Regex", kName)};
    }
    stage.matches = matches;
  }
  spec.pre_tokenizer.stages.push_back(std::move(stage));
}

void read_metaspace(const json& metaspace, VocabularySpec& spec) {
  constexpr std::string_view kName = "pre_tokenizer";
  if (string_member(metaspace, "replacement", kName) != kMarker) {
    throw_unsupported(kName, "Metaspace with another character than U+2581");
  }
  const json& scheme = member(metaspace, "prepend_scheme");
  const std::string prepend = scheme.is_string() ? scheme.get<std::string>()
                              : flag_member(metaspace, "add_prefix_space", true, kName) ? "always"
                                                                                        : "never";
  if (prepend == "always") {
    spec.space_prefix = SpacePrefix::where_missing;
  } else if (prepend == "first") {
    spec.space_prefix = SpacePrefix::first_where_missing;
  } else if (prepend != "never") {
    throw Error("tokenizer.invalid", "tokenizer.json: {}: prepend_scheme \"{}\"", kName, prepend);
  }
  if (flag_member(metaspace, "split", true, kName)) {
    spec.pre_tokenizer.stages.push_back({.kind = Stage::Kind::marker});
  }
}

struct PreTokenizerTraits {
  bool byte_level = false;
  bool marks_spaces = false;
};

PreTokenizerTraits read_pre_tokenizers(const json& file, bool marks_spaces, VocabularySpec& spec) {
  constexpr std::string_view kName = "pre_tokenizer";
  PreTokenizerTraits traits{.marks_spaces = marks_spaces};
  bool is_first = true;
  for (const json* p : flatten_sequence(member(file, kName), "pretokenizers", kName)) {
    const std::string type = string_member(*p, "type", kName);
    if (traits.byte_level) throw_unsupported(kName, type + " after ByteLevel");
    if (type == "ByteLevel") {
      traits.byte_level = true;
      if (flag_member(*p, "add_prefix_space", true, kName)) {
        if (!is_first) throw_unsupported(kName, "add_prefix_space after another pre-tokenizer");
        spec.space_prefix = SpacePrefix::where_missing;
      }
      if (flag_member(*p, "use_regex", true, kName)) {
        spec.pre_tokenizer.stages.push_back({.kind = Stage::Kind::gpt2});
      }
    } else if (type == "Split") {
      read_split(*p, traits.marks_spaces, spec);
    } else if (type == "Digits") {
      spec.pre_tokenizer.stages.push_back(
          {.kind = Stage::Kind::digits,
           .single_digits = flag_member(*p, "individual_digits", false, kName)});
    } else if (type == "Metaspace") {
      if (!is_first || marks_spaces) throw_unsupported(kName, "Metaspace after another component");
      read_metaspace(*p, spec);
      traits.marks_spaces = true;
    } else {
      if (type == "FixedLength" && integer_member(*p, "length", kName) < 1) {
        throw Error("tokenizer.invalid", "tokenizer.json: {}: FixedLength 0", kName);
      }
      throw_unsupported(kName, type);
    }
    is_first = false;
  }
  if (traits.byte_level && traits.marks_spaces)
    throw_unsupported(kName, "ByteLevel of U+2581 text");
  return traits;
}

void read_decoders(const json& file, bool byte_level, VocabularySpec& spec) {
  constexpr std::string_view kName = "decoder";
  for (const json* d : flatten_sequence(member(file, kName), "decoders", kName)) {
    const std::string type = string_member(*d, "type", kName);
    if (type == "Strip") {
      const int64_t start = integer_member(*d, "start", kName);
      const int64_t stop = integer_member(*d, "stop", kName);
      if (start < 0 || stop != 0 || start > 1 || string_member(*d, "content", kName) != " ") {
        throw Error("tokenizer.invalid",
                    "tokenizer.json: {}: Strip of {} and {} characters; one space at the start is "
                    "what a tokenizer adds",
                    kName,
                    start,
                    stop);
      }
      spec.strips_first_space |= start == 1;
    } else if (type == "Metaspace") {
      spec.strips_first_space |= spec.space_prefix != SpacePrefix::never;
    } else if (type == "Replace") {
      if (read_pattern(*d, "String", kName) != kMarker ||
          string_member(*d, "content", kName) != " ") {
        throw_unsupported(kName, "a Replace of anything but U+2581 by spaces");
      }
    } else if ((type == "ByteLevel") != byte_level ||
               (type != "ByteLevel" && type != "ByteFallback" && type != "Fuse")) {
      throw_unsupported(kName, type);
    }
  }
}

}  // namespace

void read_json_pipeline(const json& file, VocabularySpec& spec) {
  const bool normalizer_marks = read_normalizers(file, spec);
  const PreTokenizerTraits traits = read_pre_tokenizers(file, normalizer_marks, spec);
  if (!traits.byte_level && !traits.marks_spaces) {
    throw_unsupported("pre_tokenizer", "a tokenizer with neither ByteLevel nor U+2581 for spaces");
  }
  spec.spelling = traits.byte_level ? TokenSpelling::byte_level : TokenSpelling::space_marker;
  read_decoders(file, traits.byte_level, spec);
  const json& truncation = member(file, "truncation");
  if (!truncation.is_null() && integer_member(truncation, "stride", "truncation") >=
                                   integer_member(truncation, "max_length", "truncation")) {
    throw Error("tokenizer.invalid",
                "tokenizer.json: truncation: the stride is not below max_length");
  }
}

void read_json_post_processor(const json& file, VocabularySpec& spec) {
  constexpr std::string_view kName = "post_processor";
  for (const json* p : flatten_sequence(member(file, kName), "processors", kName)) {
    const std::string type = string_member(*p, "type", kName);
    if (type == "ByteLevel") continue;  // offsets alone
    if (type != "TemplateProcessing") throw_unsupported(kName, type);
    bool before_text = true;
    for (const json& piece : member(*p, "single")) {
      if (member(piece, "Sequence").is_object()) before_text = false;
      const json& special = member(piece, "SpecialToken");
      if (!special.is_object()) continue;
      const std::string name = string_member(special, "id", kName);
      const json& ids = member(member(member(*p, "special_tokens"), name), "ids");
      const bool has_id = ids.is_array() && ids.size() == 1 && ids[0].is_number_integer();
      const int64_t id = has_id ? ids[0].get<int64_t>() : -1;
      if (id < 0 || id >= static_cast<int64_t>(spec.tokens.size()) || spec.tokens[id].empty()) {
        throw Error("tokenizer.invalid",
                    "tokenizer.json: {}: the template names \"{}\", which has no one token",
                    kName,
                    name);
      }
      if (!before_text) continue;  // a token at the end is for training
      spec.bos = static_cast<int32_t>(id);
      spec.add_bos = true;
    }
  }
}

}  // namespace pagoda
