// The waist's KV dtypes as the kernels' formats, and which head sizes each has.
#pragma once

#include "backend/cuda/kv_layout.h"
#include "backend/kv_format.h"

namespace pagoda::cuda {

// Throws Error{"cuda.unsupported"} for f32.
inline Format cuda_format(KvDType dtype) {
  switch (dtype) {
    case KvDType::bf16:
      return Format::bf16;
    case KvDType::f16:
      return Format::f16;
    case KvDType::fp8:
      return Format::fp8;
    case KvDType::int8:
      return Format::int8;
    case KvDType::int4:
      return Format::int4;
    case KvDType::f32:
      break;
  }
  throw Error("cuda.unsupported", "KV dtype {}: bf16, f16, fp8, int8 and int4 are", name(dtype));
}

}  // namespace pagoda::cuda
