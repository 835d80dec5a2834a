// A JSON file as metadata: every scalar and every array of one kind of scalar becomes a key, its
// dotted path ("config.rope_scaling.factor"). null is left out; other arrays (of objects, of
// arrays, mixed) are kept as their JSON text.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "formats/mapped_checkpoint.h"

namespace pagoda {

// `tree` has limited depth (json_limits.h) and is an object. Throws "model.bad_config".
void add_json_metadata(CheckpointParts& parts,
                       std::string_view prefix,
                       const nlohmann::json& tree,
                       std::string_view path);

}  // namespace pagoda
