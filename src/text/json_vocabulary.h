// The parts of the reader of Hugging Face's tokenizer.json: everything is checked here, at load, so
// that encoding meets nothing that it cannot do.
//
// What the file asks for and this project does not have is "tokenizer.unsupported"; what
// contradicts itself is "tokenizer.invalid". Both name the component as the file does
// ("model.merges").
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "text/vocabulary_spec.h"

namespace pagoda {

// A member that may be missing or null: then the shared null value.
const nlohmann::json& member(const nlohmann::json& object, std::string_view name);
// Members of a kind; Error "tokenizer.invalid" naming `component` and the member otherwise.
std::string string_member(const nlohmann::json& object,
                          std::string_view name,
                          std::string_view component);
int64_t integer_member(const nlohmann::json& object,
                       std::string_view name,
                       std::string_view component);
bool flag_member(const nlohmann::json& object,
                 std::string_view name,
                 bool otherwise,
                 std::string_view component);
// `value` and, where it is a Sequence, what it holds (at any depth), in order. `list` is the name
// of a Sequence's member.
std::vector<const nlohmann::json*> flatten_sequence(const nlohmann::json& value,
                                                    std::string_view list,
                                                    std::string_view component);

// normalizer, pre_tokenizer, decoder, truncation: how text reaches the model and comes back.
void read_json_pipeline(const nlohmann::json& file, VocabularySpec& spec);
// post_processor: which token comes first. After the tokens have been read.
void read_json_post_processor(const nlohmann::json& file, VocabularySpec& spec);

}  // namespace pagoda
