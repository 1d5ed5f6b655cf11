// SPDX-License-Identifier: MIT
// A symmetric matrix that several tests take.
#pragma once

#include "layers/aten/aten_values.h"

namespace oort::testing {

inline Tensor Square() { return F({4, 1, -2, 1, 3, 0.5, -2, 0.5, 5}, {3, 3}); }

}  // namespace oort::testing
