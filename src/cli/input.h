// Text that a command reads: a prompt, a file to tokenize, messages in JSON.
#pragma once

#include <string>

namespace pagoda::cli {

// What a file holds, or the standard input for "-". Throws Error{"usage.file"} where it cannot be
// read, or holds more than 256 MiB: /dev/zero ends too.
std::string read_input(const std::string& path);

}  // namespace pagoda::cli
