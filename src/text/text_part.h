// TextPart: a piece of a prompt and who wrote it.
//
// A chat template writes `markup`; everything that came from a message, a tool or a raw prompt is
// `plain`. Control tokens are recognised only in markup (rule R10), so that a user who types the
// name of a control token gets its letters. A rendered prompt is a vector of parts in order; no
// part is empty and neighbours differ in origin. The tokenizer joins plain text across a border
// before it merges, so that a border by itself changes no id.
#pragma once

#include <string>

namespace pagoda {

enum class TextOrigin {
  plain,   // content: never holds a control token
  markup,  // written by the template: control tokens are recognised
};

struct TextPart {
  std::string text;
  TextOrigin origin = TextOrigin::plain;

  bool operator==(const TextPart&) const = default;
};

}  // namespace pagoda
