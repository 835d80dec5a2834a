// JSON from outside, with limits that hold while it is read (rule R14): depth and the number of
// values are counted by an iterative pass before any tree is built, since a tree of nlohmann::json
// is copied and written recursively. Use this wherever text that is not our own becomes a tree.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace pagoda {

enum class DuplicateKeys : uint8_t { last_one_wins, refuse };

struct JsonLimits {
  int max_depth = 64;
  int64_t max_nodes = 1'000'000;  // values: objects, arrays, strings, numbers, literals
  DuplicateKeys duplicate_keys = DuplicateKeys::last_one_wins;
};

// Throws Error{kind} saying what is wrong and where; `where` (a path) begins the message.
void check_json(std::string_view text,
                std::string_view kind,
                std::string_view where,
                const JsonLimits& limits = {});

// The same, then the tree.
nlohmann::json parse_json(std::string_view text,
                          std::string_view kind,
                          std::string_view where,
                          const JsonLimits& limits = {});

}  // namespace pagoda
