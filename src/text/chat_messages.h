// What a request hands to a chat template, checked and in the form that templates expect.
//
// Errors: "template.input", beginning with the parameter's path ("messages[2].role").
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "text/jinja_runtime.h"

namespace pagoda {

// Messages in OpenAI's form; see ChatTemplate::render for what changes.
nlohmann::ordered_json normalise_messages(const nlohmann::ordered_json& messages);
// Refuses extra variables that would take the place of the template's own (R12).
void check_kwargs(const nlohmann::ordered_json& kwargs);
// A value from the request: every string in it is content.
jinja::Value to_value(jinja::Runtime& rt,
                      const nlohmann::ordered_json& json,
                      std::string_view path);

}  // namespace pagoda
