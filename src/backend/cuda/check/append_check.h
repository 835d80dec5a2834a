// The append kernel against float64 on the host: norm, rotation and what the cache then holds.
#pragma once

#include "backend/kv_format.h"
#include "backend/op_args.h"

namespace pagoda::cuda {

struct AppendError {
  double stored = 0;  // ‖stored - wanted‖ / ‖wanted‖ of the worst row of K or V
  double q = 0;       // the same of Q
  // Half a step of the format and a little; Q is bf16.
  bool good(KvDType dtype) const {
    constexpr double kLimit[] = {0, 1e-3, 6e-3, 7e-2, 1.5e-2, 2e-1};  // by KvDType
    return stored < kLimit[static_cast<int>(dtype)] && q < 6e-3;
  }
};

// 37 tokens of a random QKV product, in slots out of order, one of them -1; norms with a rotation.
AppendError append_error(KvDType dtype, int32_t head_dim, RopeStyle style);

}  // namespace pagoda::cuda
