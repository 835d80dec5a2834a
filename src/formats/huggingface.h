// A Hugging Face model folder as a Checkpoint: config.json (required), generation_config.json,
// tokenizer_config.json and tokenizer.json as metadata (keys in checkpoint.h), tensors from
// model.safetensors, from the shards of model.safetensors.index.json, or from the folder's only
// *.safetensors file.
//
// The folder is hostile (rule R7): files are opened by plain name, and one whose real place is
// outside the folder is refused ("st.path_escape") before anything opens it. The one exception is
// the Hugging Face cache, whose snapshots link to blobs beside them: there the model's own cache
// folder ("models--OWNER--NAME") is the border. Pickles are refused by name (rule R8).
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "formats/checkpoint.h"

namespace pagoda {

// Throws "model.no_config", "model.no_weights", "model.no_index", "model.bad_config",
// "model.pickle_refused", "st.*".
std::unique_ptr<Checkpoint> open_huggingface(const std::filesystem::path& folder);

// A config.json alone: metadata without tensors, enough for a memory plan.
std::unique_ptr<Checkpoint> open_bare_config(const std::filesystem::path& file);

// The weight_map of an index file: tensor name -> file name, each a plain name of a safetensors
// file. Throws "st.bad_index", "st.path_escape". `path` is for messages.
std::map<std::string, std::string> parse_safetensors_index(std::string_view json,
                                                           std::string_view path);

// By its extension: .bin, .pt, .pth, .ckpt, .pkl.
bool is_pickle_name(const std::filesystem::path& path);

}  // namespace pagoda
