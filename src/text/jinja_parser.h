// Parser: tokens to syntax tree, by jinja2's grammar without import, include, extends, block, do
// and recursive loops. Recursive descent with a depth counter (rule R9): nesting above
// `max_depth` is "template.limit"; everything else that is wrong is "template.syntax" with a line.
#pragma once

#include <string_view>

#include "text/jinja_ast.h"

namespace pagoda::jinja {

Body parse(std::string_view source, int max_depth);

}  // namespace pagoda::jinja
