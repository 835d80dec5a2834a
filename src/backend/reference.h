// The reference backend: every operation computed plainly, in float64, one element at a time, from
// its definition. Slow, and right by inspection: what every other backend is held against. It
// stores K and V as [S][dim] in the stored format's precision.
#pragma once

#include <memory>

#include "backend/backend.h"

namespace pagoda {

std::unique_ptr<Backend> make_reference_backend();

}  // namespace pagoda
