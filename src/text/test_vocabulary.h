// Small vocabularies for tests, as the metadata of a model file: byte-level ("gpt2") and
// SentencePiece-style ("llama") ones in GGUF's keys, and a tokenizer.json of the SentencePiece kind
// (S-tok). Each owns its strings; change a key before metadata() is read.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/metadata.h"
#include "text/unicode.h"

namespace pagoda {

class TestVocabulary {
 public:
  using Value = Metadata::Value;

  void set(std::string_view key, Value value) { values_[std::string(key)] = std::move(value); }
  void set_text(std::string_view key, std::string text) { set(key, keep(std::move(text))); }
  void erase(std::string_view key) { values_.erase(std::string(key)); }

  // Adds a token; the id.
  int32_t add(std::string text, int64_t kind = 1, double score = 0) {
    tokens_.push_back(keep(std::move(text)));
    kinds_.push_back(kind);
    scores_.push_back(score);
    return static_cast<int32_t>(tokens_.size() - 1);
  }
  void add_merge(std::string rule) { merges_.push_back(keep(std::move(rule))); }

  Metadata metadata() const {
    auto values = values_;
    values.try_emplace("tokenizer.ggml.tokens", tokens_);
    values.try_emplace("tokenizer.ggml.token_type", kinds_);
    values.try_emplace("tokenizer.ggml.scores", scores_);
    values.try_emplace("tokenizer.ggml.merges", merges_);
    Metadata metadata;
    for (auto& [key, value] : values) metadata.insert(key, value);
    return metadata;
  }

  // GPT-2's letter for a byte.
  static std::string letter(int byte) {
    const auto printable = [](int b) { return (b >= 33 && b <= 126) || (b >= 161 && b != 173); };
    uint32_t code_point = static_cast<uint32_t>(byte);
    if (!printable(byte)) {
      code_point = 0x100;
      for (int b = 0; b < byte; b++) code_point += !printable(b);
    }
    std::string text;
    append_utf8(text, code_point);
    return text;
  }

  // Ids 0..255 are the bytes; then "he", "ll", "hell", "hello", "Ġhello", "  ", and the control
  // tokens <|start|> and <|end|>, and the user-defined <tag>.
  static TestVocabulary byte_level() {
    TestVocabulary v;
    v.set_text("tokenizer.ggml.model", "gpt2");
    v.set_text("tokenizer.ggml.pre", "gpt-2");
    for (int b = 0; b < 256; b++) v.add(letter(b));
    const std::string space = letter(' ');
    const std::pair<std::string, std::string> rules[] = {
        {"h", "e"}, {"l", "l"}, {"he", "ll"}, {"hell", "o"}, {space, "hello"}, {space, space}};
    for (const auto& [left, right] : rules) {
      v.add(left + right);
      v.add_merge(left + " " + right);
    }
    v.set("tokenizer.ggml.bos_token_id", int64_t{v.add("<|start|>", 3)});
    v.set("tokenizer.ggml.eos_token_id", int64_t{v.add("<|end|>", 3)});
    v.add("<tag>", 4);
    return v;
  }

  // <unk> <s> </s>, 256 byte tokens, then pieces; U+2581 is written as "_" in `pieces`.
  static TestVocabulary sentencepiece(const std::vector<std::string>& pieces) {
    TestVocabulary v;
    v.set_text("tokenizer.ggml.model", "llama");
    v.add("<unk>", 2);
    v.add("<s>", 3);
    v.add("</s>", 3);
    for (int b = 0; b < 256; b++) v.add(byte_name(b), 6);
    double score = 0;
    for (const std::string& piece : pieces) v.add(marked(piece), 1, score--);
    return v;
  }

  static std::string byte_name(int byte) {
    constexpr char kHex[] = "0123456789ABCDEF";
    return {'<', '0', 'x', kHex[byte >> 4], kHex[byte & 15], '>'};
  }
  static std::string marked(std::string_view text) {
    std::string result;
    for (const char c : text) result += c == '_' ? std::string("\xE2\x96\x81") : std::string(1, c);
    return result;
  }

 private:
  std::string_view keep(std::string text) { return kept_.emplace_back(std::move(text)); }

  std::map<std::string, Value> values_;
  std::vector<std::string_view> tokens_, merges_;
  std::vector<int64_t> kinds_;
  std::vector<double> scores_;
  std::deque<std::string> kept_;
};

// Pieces enough to spell lower-case words, with a few merged ones.
inline std::vector<std::string> sentencepiece_pieces() {
  std::vector<std::string> pieces = {"_t", "he", "_the", "_a", "ab", "__", "_", "\n"};
  for (char c = 'a'; c <= 'z'; c++) pieces.emplace_back(1, c);
  return pieces;
}

// A tokenizer.json: S-tok of design notes: U+2581 put before the text, byte fallback.
inline std::string s_tok_json() {
  std::string vocabulary = R"("<unk>":0,"<s>":1,"</s>":2)";
  int id = 3;
  const auto add = [&](const std::string& text) {
    vocabulary += ",\"" + text + "\":" + std::to_string(id++);
  };
  for (int b = 0; b < 256; b++) add(TestVocabulary::byte_name(b));
  for (char c = 'a'; c <= 'z'; c++) add(std::string(1, c));
  for (const char* piece : {"_", "_t", "he", "_the"}) add(TestVocabulary::marked(piece));
  const std::string m = TestVocabulary::marked("_");
  return R"({"truncation":null,"added_tokens":[
    {"id":0,"content":"<unk>","special":true},{"id":1,"content":"<s>","special":true},
    {"id":2,"content":"</s>","special":true}],
  "normalizer":{"type":"Sequence","normalizers":[{"type":"Prepend","prepend":")" +
         m + R"("},
    {"type":"Replace","pattern":{"String":" "},"content":")" +
         m + R"("}]},
  "pre_tokenizer":null,
  "post_processor":{"type":"TemplateProcessing",
    "single":[{"SpecialToken":{"id":"<s>","type_id":0}},{"Sequence":{"id":"A","type_id":0}}],
    "special_tokens":{"<s>":{"id":"<s>","ids":[1],"tokens":["<s>"]}}},
  "decoder":{"type":"Sequence","decoders":[
    {"type":"Replace","pattern":{"String":")" +
         m + R"("},"content":" "},{"type":"ByteFallback"},
    {"type":"Fuse"},{"type":"Strip","content":" ","start":1,"stop":0}]},
  "model":{"type":"BPE","unk_token":"<unk>","fuse_unk":true,"byte_fallback":true,
    "vocab":{)" +
         vocabulary + R"(},"merges":[")" + m + R"( t","h e",")" + m + R"(t he"]}})";
}

}  // namespace pagoda
