// The real TextStreams: a Detokenizer for each choice.
#pragma once

#include "engine/request.h"
#include "text/tokenizer.h"

namespace pagoda {

// `tokenizer` must outlive every stream.
TextStreamFactory text_streams(const Tokenizer& tokenizer);

}  // namespace pagoda
