#include "text/json_vocabulary.h"

#include <algorithm>

#include "base/error.h"
#include "formats/json_limits.h"
#include "text/token_spelling.h"

namespace pagoda {
namespace {

using nlohmann::json;

// Merges as pairs are three values each; the largest vocabularies have half a million of them.
constexpr JsonLimits kLimits{.max_nodes = 16'000'000};

// The texts and kinds of all ids, from the model's vocabulary and the added tokens.
class TokenTable {
 public:
  explicit TokenTable(VocabularySpec& spec) : spec_(spec) {}

  void read_vocabulary(const json& model, bool byte_fallback) {
    const json& vocabulary = member(model, "vocab");
    if (!vocabulary.is_object() || vocabulary.empty()) {
      throw Error("tokenizer.invalid", "tokenizer.json: model.vocab: not an object with tokens");
    }
    // An id far beyond the number of tokens would reserve memory for nothing.
    limit_ = static_cast<int64_t>(vocabulary.size()) * 4 + 65536;
    reserve(static_cast<int64_t>(vocabulary.size()));
    for (const auto& [text, id] : vocabulary.items()) {
      const int64_t place = check_id(id, text, "model.vocab");
      reserve(place + 1);
      if (!spec_.tokens[place].empty()) throw_taken(place, text, "model.vocab");
      spec_.tokens[place] = keep(text);
      const bool is_byte = byte_fallback && parse_byte_token(text) >= 0;
      spec_.kinds[place] = is_byte ? TokenKind::byte : TokenKind::normal;
    }
  }

  void read_added(const json& file) {
    constexpr std::string_view kName = "added_tokens";
    for (const json& added : member(file, kName)) {
      const std::string text = string_member(added, "content", kName);
      const int64_t id = check_id(member(added, "id"), text, kName);
      reserve(id + 1);
      if (text.empty())
        throw Error("tokenizer.invalid", "tokenizer.json: {}: an empty text", kName);
      if (!spec_.tokens[id].empty() && spec_.tokens[id] != text) throw_taken(id, text, kName);
      if (flag_member(added, "single_word", false, kName)) {
        throw Error("tokenizer.unsupported",
                    "tokenizer.json: {}: \"{}\" is a single_word, which is not supported",
                    kName,
                    text);
      }
      if (spec_.tokens[id].empty()) spec_.tokens[id] = keep(text);
      const bool special = flag_member(added, "special", false, kName);
      spec_.kinds[id] = special ? TokenKind::control : TokenKind::user_defined;
      const AddedTokenStrip strip{.id = static_cast<int32_t>(id),
                                  .left = flag_member(added, "lstrip", false, kName),
                                  .right = flag_member(added, "rstrip", false, kName)};
      if (strip.left || strip.right) spec_.strips.push_back(strip);
    }
    std::sort(spec_.strips.begin(), spec_.strips.end(), [](const auto& a, const auto& b) {
      return a.id < b.id;
    });
  }

  void read_merges(const json& model) {
    constexpr std::string_view kName = "model.merges";
    const json& merges = member(model, "merges");
    if (!merges.is_array()) throw Error("tokenizer.invalid", "tokenizer.json: {}: no array", kName);
    spec_.merges.reserve(merges.size());
    for (const json& merge : merges) {
      if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
        spec_.merges.emplace_back(keep(merge[0].get<std::string>()),
                                  keep(merge[1].get<std::string>()));
        continue;
      }
      const std::string text = merge.is_string() ? merge.get<std::string>() : std::string();
      const size_t space = text.find(' ', 1);
      if (space == std::string::npos || space + 1 == text.size()) {
        throw Error("tokenizer.invalid",
                    "tokenizer.json: {}: rule {} is not two symbols",
                    kName,
                    spec_.merges.size());
      }
      const std::string_view kept = keep(text);
      spec_.merges.emplace_back(kept.substr(0, space), kept.substr(space + 1));
    }
  }

 private:
  std::string_view keep(std::string text) { return spec_.owned.emplace_back(std::move(text)); }

  void reserve(int64_t count) {
    if (count <= static_cast<int64_t>(spec_.tokens.size())) return;
    spec_.tokens.resize(static_cast<size_t>(count));
    spec_.kinds.resize(static_cast<size_t>(count), TokenKind::unused);
  }

  int64_t check_id(const json& id, std::string_view text, std::string_view component) const {
    const bool fits =
        id.is_number_integer() && id.get<int64_t>() >= 0 && id.get<int64_t>() < limit_;
    if (fits) return id.get<int64_t>();
    throw Error("tokenizer.invalid",
                "tokenizer.json: {}: the id {} of \"{}\" is not in [0, {})",
                component,
                id.dump(),
                text,
                limit_);
  }

  [[noreturn]] void throw_taken(int64_t id, std::string_view text, std::string_view component) {
    throw Error("tokenizer.invalid",
                "tokenizer.json: {}: \"{}\" and \"{}\" have the id {}",
                component,
                spec_.tokens[id],
                text,
                id);
  }

  VocabularySpec& spec_;
  int64_t limit_ = 0;
};

int32_t find_token(const VocabularySpec& spec, std::string_view text) {
  const auto it = std::find(spec.tokens.begin(), spec.tokens.end(), text);
  return it != spec.tokens.end() ? static_cast<int32_t>(it - spec.tokens.begin()) : -1;
}

void read_model(const json& model, VocabularySpec& spec) {
  const std::string type = model.contains("type") ? string_member(model, "type", "model") : "BPE";
  if (type != "BPE") {
    throw Error("tokenizer.unsupported",
                "tokenizer.json: model: \"{}\" is not supported; \"BPE\" is",
                type);
  }
  for (const char* affix : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const json& value = member(model, affix);
    if (value.is_null() || value == "") continue;
    throw Error("tokenizer.unsupported", "tokenizer.json: model: {} is not supported", affix);
  }
  spec.whole_piece_first = flag_member(model, "ignore_merges", false, "model");
  spec.fuse_unknown = flag_member(model, "fuse_unk", false, "model");
}

void read_unknown(const json& model, VocabularySpec& spec) {
  if (member(model, "unk_token").is_null()) return;
  const std::string text = string_member(model, "unk_token", "model");
  spec.unknown = find_token(spec, text);
  if (spec.unknown >= 0) return;
  throw Error("tokenizer.invalid", "tokenizer.json: model.unk_token: \"{}\" is not a token", text);
}

// A token of tokenizer_config.json: a text, or an object with its text; -1: none.
int32_t config_token(const Metadata& metadata, std::string_view name, const VocabularySpec& spec) {
  for (const char* suffix : {"", ".content"}) {
    const auto it = metadata.all().find("tokenizer_config." + std::string(name) + suffix);
    if (it == metadata.all().end()) continue;
    if (const auto* text = std::get_if<std::string_view>(&it->second))
      return find_token(spec, *text);
  }
  return -1;
}

// Ids of end tokens in config.json and generation_config.json: a number or a list of them.
void add_end_ids(const Metadata& metadata, std::string_view key, VocabularySpec& spec) {
  const auto it = metadata.all().find(key);
  if (it == metadata.all().end()) return;
  std::vector<int64_t> ids;
  if (const auto* one = std::get_if<int64_t>(&it->second)) ids = {*one};
  if (const auto* many = std::get_if<std::vector<int64_t>>(&it->second)) ids = *many;
  for (const int64_t id : ids) {
    if (id < 0 || id >= static_cast<int64_t>(spec.tokens.size())) continue;  // a padded vocabulary
    if (spec.eos < 0) spec.eos = static_cast<int32_t>(id);
    spec.more_end_of_generation.push_back(static_cast<int32_t>(id));
  }
}

void read_config_tokens(const Metadata& metadata, VocabularySpec& spec) {
  if (spec.bos < 0) spec.bos = config_token(metadata, "bos_token", spec);
  spec.eos = config_token(metadata, "eos_token", spec);
  add_end_ids(metadata, "generation_config.eos_token_id", spec);
  add_end_ids(metadata, "config.eos_token_id", spec);
}

}  // namespace

const json& member(const json& object, std::string_view name) {
  static const json kNull;
  if (!object.is_object()) return kNull;
  const auto it = object.find(name);
  return it != object.end() ? *it : kNull;
}

std::string string_member(const json& object, std::string_view name, std::string_view component) {
  const json& value = member(object, name);
  if (value.is_string()) return value.get<std::string>();
  throw Error("tokenizer.invalid", "tokenizer.json: {}: {} is not a string", component, name);
}

int64_t integer_member(const json& object, std::string_view name, std::string_view component) {
  const json& value = member(object, name);
  if (value.is_number_integer()) return value.get<int64_t>();
  throw Error("tokenizer.invalid", "tokenizer.json: {}: {} is not an integer", component, name);
}

bool flag_member(const json& object,
                 std::string_view name,
                 bool otherwise,
                 std::string_view component) {
  const json& value = member(object, name);
  if (value.is_null()) return otherwise;
  if (value.is_boolean()) return value.get<bool>();
  throw Error("tokenizer.invalid", "tokenizer.json: {}: {} is not a boolean", component, name);
}

std::vector<const json*> flatten_sequence(const json& value,
                                          std::string_view list,
                                          std::string_view component) {
  std::vector<const json*> flat, todo;
  if (!value.is_null()) todo.push_back(&value);
  while (!todo.empty()) {
    const json& next = *todo.back();
    todo.pop_back();
    if (string_member(next, "type", component) != "Sequence") {
      flat.push_back(&next);
      continue;
    }
    const json& items = member(next, list);
    if (!items.is_array()) {
      throw Error(
          "tokenizer.invalid", "tokenizer.json: {}: a Sequence without {}", component, list);
    }
    for (size_t i = items.size(); i > 0; i--) todo.push_back(&items[i - 1]);
  }
  return flat;
}

VocabularySpec read_json_vocabulary(const Metadata& metadata) {
  const auto it = metadata.all().find("tokenizer.json");
  const auto* text =
      it != metadata.all().end() ? std::get_if<std::string_view>(&it->second) : nullptr;
  if (text == nullptr) throw Error("tokenizer.invalid", "tokenizer.json: not a text");
  const json file = parse_json(*text, "tokenizer.invalid", "tokenizer.json", kLimits);
  const json& model = member(file, "model");
  if (!model.is_object()) throw Error("tokenizer.invalid", "tokenizer.json: model: not an object");
  VocabularySpec spec;
  read_model(model, spec);
  read_json_pipeline(file, spec);
  TokenTable table(spec);
  table.read_vocabulary(model, flag_member(model, "byte_fallback", false, "model"));
  table.read_added(file);
  table.read_merges(model);
  read_unknown(model, spec);
  read_json_post_processor(file, spec);
  read_config_tokens(metadata, spec);
  return spec;
}

}  // namespace pagoda
