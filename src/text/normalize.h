// Unicode normalisation for the tokenizers that ask for it.
#pragma once

#include <string>
#include <string_view>

namespace pagoda {

// NFC of `text` in `out`, false where the text is in that form already. Bytes that are not UTF-8
// stay as they are.
bool normalize_nfc(std::string_view text, std::string& out);

}  // namespace pagoda
