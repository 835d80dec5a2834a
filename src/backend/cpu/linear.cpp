#include "backend/cpu/linear.h"

namespace pagoda::cpu {

int64_t packed_bytes(DType dtype, int64_t, int64_t) {
  PG_CHECK(false, "packed_bytes of {}", name(dtype));
  return 0;
}
Weight pack(Context&, ConstTensorView) {
  PG_CHECK(false, "pack");
  return {};
}
void unpack_row(const Context&, const Weight&, int64_t row, float*) {
  PG_CHECK(false, "unpack_row {}", row);
}
int64_t linear_scratch_bytes(const WorkspaceShape&, int) {
  return 0;
}
void linear(Context&, const LinearArgs&) {
  PG_CHECK(false, "linear");
}

}  // namespace pagoda::cpu
