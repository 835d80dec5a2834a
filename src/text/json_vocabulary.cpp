#include "base/error.h"
#include "text/vocabulary_spec.h"

namespace pagoda {

VocabularySpec read_json_vocabulary(const Metadata&) {
  throw Error("tokenizer.unsupported", "tokenizer.json is not read; a GGUF file of the model is");
}

}  // namespace pagoda
