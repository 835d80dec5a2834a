// Names that come out of model files, made fit for messages: printable ASCII and well-formed
// UTF-8 pass, every other byte becomes \xNN, long ones are cut with "..." (rule R15).
#pragma once

#include <string>
#include <string_view>

namespace pagoda {

std::string printable(std::string_view bytes, size_t max_bytes = 120);

// Length in bytes of the well-formed UTF-8 sequence that `bytes` starts with; 0: none does.
size_t utf8_sequence(std::string_view bytes);

}  // namespace pagoda
