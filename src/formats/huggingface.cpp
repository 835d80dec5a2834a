#include "formats/huggingface.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "formats/json_limits.h"
#include "formats/json_metadata.h"
#include "formats/mapped_checkpoint.h"
#include "formats/model_folder.h"
#include "formats/printable.h"
#include "formats/safetensors.h"

namespace pagoda {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::string_view kSingleFile = "model.safetensors";
constexpr std::string_view kIndexFile = "model.safetensors.index.json";
constexpr std::string_view kTemplateKey = "tokenizer.chat_template";

std::string shown(const fs::path& path) {
  return printable(path.string(), 1000);
}

struct Listing {
  std::vector<std::string> safetensors, pickles, ggufs;
};

Listing list(const ModelFolder& folder) {
  Listing out;
  std::error_code error;
  for (fs::directory_iterator it(folder.path(), error), end; !error && it != end;
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name.ends_with(".safetensors")) out.safetensors.push_back(name);
    if (name.ends_with(".gguf")) out.ggufs.push_back(name);
    if (is_pickle_name(name)) out.pickles.push_back(name);
  }
  if (error)
    throw Error("model.unreadable", "{}: cannot list: {}", shown(folder.path()), error.message());
  return out;
}

void check_contents(const ModelFolder& folder, const Listing& listing) {
  const bool has_weights = !listing.safetensors.empty() || folder.has(kIndexFile);
  if (!has_weights && !listing.pickles.empty())
    throw Error("model.pickle_refused",
                "{}: expected *.safetensors, found the pickle {} (it can run code); convert it to "
                "safetensors first",
                shown(folder.path()),
                printable(listing.pickles.front()));
  if (!folder.has("config.json"))
    throw Error("model.no_config",
                "{}: expected a folder with config.json and *.safetensors, found no config.json{}",
                shown(folder.path()),
                listing.ggufs.empty() ? "" : "; to open a GGUF file in it, name the file");
  if (!has_weights)
    throw Error("model.no_weights",
                "{}: expected *.safetensors beside config.json, found none",
                shown(folder.path()));
}

// A text file of the folder, mapped for as long as the checkpoint lives.
std::string_view read_text(CheckpointParts& parts,
                           const ModelFolder& folder,
                           std::string_view name) {
  parts.files.push_back(folder.open(name, "st.path_escape"));
  const auto bytes = parts.files.back()->bytes();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

json add_json_file(CheckpointParts& parts, const ModelFolder& folder, std::string_view name) {
  const std::string path = shown(folder.path() / name);
  json tree = parse_json(read_text(parts, folder, name), "model.bad_config", path);
  const std::string_view prefix = name.substr(0, name.find('.'));
  add_json_metadata(parts, prefix, tree, path);
  return tree;
}

// The value of tokenizer_config.json's chat_template: one text, or a list of {name, template} of
// which the one called "default" is the template and the others are "tokenizer.chat_template.NAME".
void add_templates(CheckpointParts& parts, const json& value) {
  if (value.is_string())
    parts.metadata.insert(std::string(kTemplateKey), parts.keep(value.get<std::string>()));
  if (!value.is_array()) return;
  for (const json& item : value) {
    if (!item.is_object()) continue;
    const json name = item.value("name", json()), body = item.value("template", json());
    if (!name.is_string() || !body.is_string()) continue;
    const auto which = name.get<std::string>();
    parts.metadata.insert(
        which == "default" ? std::string(kTemplateKey) : fmt::format("{}.{}", kTemplateKey, which),
        parts.keep(body.get<std::string>()));
  }
}

void add_tensors(CheckpointParts& parts, const ModelFolder& folder, std::string_view name) {
  auto file = folder.open(name, "st.path_escape");
  for (CheckpointTensor& tensor : parse_safetensors(file->bytes(), shown(folder.path() / name)))
    parts.tensors.push_back(std::move(tensor));
  parts.files.push_back(std::move(file));
}

void add_shards(CheckpointParts& parts, const ModelFolder& folder) {
  const std::string path = shown(folder.path() / kIndexFile);
  const auto map = parse_safetensors_index(read_text(parts, folder, kIndexFile), path);
  std::set<std::string> shards;
  for (const auto& [tensor, shard] : map) shards.insert(shard);
  for (const std::string& shard : shards)
    if (!folder.has(shard))
      throw Error("st.missing_shard",
                  "{}: expected the file {} beside it, not found",
                  path,
                  printable(shard));
  for (const std::string& shard : shards) add_tensors(parts, folder, shard);
  const auto order = sort_by_name(parts.tensors, "st.duplicate_tensor", path);
  for (const auto& [tensor, shard] : map) {
    const auto it = std::ranges::lower_bound(
        order, std::string_view(tensor), {}, [&](uint32_t i) -> std::string_view {
          return parts.tensors[i].name;
        });
    if (it == order.end() || parts.tensors[*it].name != tensor)
      throw Error("st.missing_tensor",
                  "{}: expected tensor {} in {}, not found",
                  path,
                  printable(tensor),
                  printable(shard));
  }
}

void add_weights(CheckpointParts& parts, const ModelFolder& folder, const Listing& listing) {
  if (folder.has(kSingleFile)) return add_tensors(parts, folder, kSingleFile);
  if (folder.has(kIndexFile)) return add_shards(parts, folder);
  if (listing.safetensors.size() != 1)
    throw Error("model.no_index",
                "{}: expected {} to say which of the {} safetensors files to read, not found",
                shown(folder.path()),
                kIndexFile,
                listing.safetensors.size());
  add_tensors(parts, folder, listing.safetensors.front());
}

}  // namespace

std::map<std::string, std::string> parse_safetensors_index(std::string_view text,
                                                           std::string_view path) {
  const json tree =
      parse_json(text, "st.bad_index", path, JsonLimits{.duplicate_keys = DuplicateKeys::refuse});
  const auto map = tree.is_object() ? tree.find("weight_map") : tree.end();
  if (!tree.is_object() || map == tree.end() || !map->is_object() || map->empty())
    throw Error("st.bad_index", "{}: expected an object weight_map with entries", path);
  std::map<std::string, std::string> out;
  for (const auto& [tensor, value] : map->items()) {
    if (!value.is_string())
      throw Error(
          "st.bad_index", "{}: weight_map {}: expected a file name", path, printable(tensor));
    const auto& file = value.get_ref<const std::string&>();
    if (!is_plain_name(file))
      throw Error("st.path_escape",
                  "{}: weight_map {}: expected the plain name of a file in this folder, found {}",
                  path,
                  printable(tensor),
                  printable(file));
    if (is_pickle_name(file))
      throw Error("model.pickle_refused",
                  "{}: weight_map {}: expected a safetensors file, found the pickle {}",
                  path,
                  printable(tensor),
                  printable(file));
    if (!file.ends_with(".safetensors"))
      throw Error("st.bad_index",
                  "{}: weight_map {}: expected a name that ends in .safetensors, found {}",
                  path,
                  printable(tensor),
                  printable(file));
    out.emplace(tensor, file);
  }
  return out;
}

std::unique_ptr<Checkpoint> open_huggingface(const fs::path& path) {
  const ModelFolder folder(path);
  const Listing listing = list(folder);
  check_contents(folder, listing);
  CheckpointParts parts;
  parts.format = CheckpointFormat::safetensors;
  add_json_file(parts, folder, "config.json");
  if (folder.has("generation_config.json")) add_json_file(parts, folder, "generation_config.json");
  if (folder.has("tokenizer.json"))
    parts.metadata.insert("tokenizer.json", read_text(parts, folder, "tokenizer.json"));
  if (folder.has("chat_template.jinja"))  // wins over tokenizer_config.json's
    parts.metadata.insert(std::string(kTemplateKey),
                          read_text(parts, folder, "chat_template.jinja"));
  if (folder.has("tokenizer_config.json")) {
    const json tree = add_json_file(parts, folder, "tokenizer_config.json");
    add_templates(parts, tree.value("chat_template", json()));
  }
  add_weights(parts, folder, listing);
  return make_checkpoint(std::move(parts), "st.duplicate_tensor");
}

std::unique_ptr<Checkpoint> open_bare_config(const fs::path& file) {
  const ModelFolder folder(file.has_parent_path() ? file.parent_path() : fs::path("."));
  CheckpointParts parts;
  parts.format = CheckpointFormat::safetensors;
  const std::string path = shown(file);
  add_json_metadata(
      parts,
      "config",
      parse_json(read_text(parts, folder, file.filename().string()), "model.bad_config", path),
      path);
  return make_checkpoint(std::move(parts), "st.duplicate_tensor");
}

}  // namespace pagoda
