// Log lines go to stderr, one a line, through one spdlog logger; stdout belongs to results.
// log_warning("{} has no chat template", name); what fails is thrown, not logged.
#pragma once

#include <fmt/core.h>

#include <string_view>
#include <utility>

namespace pagoda {

void write_warning(std::string_view text);

template <typename... Args>
void log_warning(fmt::format_string<Args...> format, Args&&... args) {
  write_warning(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace pagoda
