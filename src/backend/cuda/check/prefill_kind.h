// PrefillKind: which of the prefill kernels a case of prefill_check goes through, by the types of
// cache and queries, the head size, the path that is asked for, and whether quantised keys go by
// way of a 16-bit copy.
#pragma once

#include <fmt/format.h>

#include <string>

#include "backend/cuda/check/prefill_case.h"

namespace pagoda::cuda {

struct PrefillKind {
  KvDType dtype;
  int32_t head_dim;
  PrefillPath path = PrefillPath::automatic;
  DType q_dtype = DType::bf16;
  bool scratch = false;

  std::string name() const {
    return fmt::format("{}{} hd{}{}{}",
                       pagoda::name(dtype),
                       kv_bits(dtype) < 16 && q_dtype == DType::f16 ? " q f16" : "",
                       head_dim,
                       path == PrefillPath::mma ? " mma" : "",
                       scratch               ? " copied"
                       : kv_bits(dtype) < 16 ? " direct"
                                             : "");
  }
  // Codes become values of 11 bits in the kernel: a score of hundreds is off by its 2^-12.
  bool rounds_codes() const {
    return !scratch && (dtype == KvDType::int8 || dtype == KvDType::int4);
  }
  bool knows_spans() const {
    const KvDType attended = !scratch                 ? dtype
                             : q_dtype == DType::bf16 ? KvDType::bf16
                                                      : KvDType::f16;
    return prefill_tile(attended, head_dim, path).span_tiles > 0;
  }
  // The kernels' own sizes and types, as opposed to those that are padded into them.
  bool is_main() const { return head_dim % 64 == 0 && head_dim != 192 && q_dtype == DType::bf16; }
  PrefillCaseShape shape() const {
    PrefillCaseShape s;
    s.dtype = dtype, s.head_dim = head_dim, s.path = path, s.q_dtype = q_dtype;
    s.scratch = scratch;
    s.fp8_scales = dtype == KvDType::fp8 && head_dim % 64 == 0;
    return s;
  }
};

}  // namespace pagoda::cuda
