#include "backend/cuda/limits.h"

#include "backend/cuda/format.h"
#include "base/error.h"

namespace pagoda::cuda {

void check_limits(const WorkspaceShape& shape) {
  if (shape.head_dim != 0 && !has_head_size(shape.head_dim))
    throw Error("cuda.unsupported",
                "head size {}: {} are supported; use --device cpu",
                shape.head_dim,
                kHeadSizeNames);
  if (shape.norm_cols > kMaxNormCols)
    throw Error("cuda.unsupported",
                "hidden size {}: up to {} is supported; use --device cpu",
                shape.norm_cols,
                kMaxNormCols);
  if (shape.vocabulary >= kMaxVocabulary)
    throw Error("cuda.unsupported",
                "a vocabulary of {}: less than {} are supported; use --device cpu",
                shape.vocabulary,
                kMaxVocabulary);
  if (shape.max_context > kMaxContext)
    throw Error("cuda.unsupported",
                "sequences of {} tokens: up to {} are supported; lower --max-model-len",
                shape.max_context,
                kMaxContext);
}

}  // namespace pagoda::cuda
