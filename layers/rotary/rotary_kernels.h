// SPDX-License-Identifier: MIT
#pragma once

#include "cpu/kernels.h"

namespace oort {

/// Turns `pairs` pairs of one head, (a, b) to (a cos - b sin, b cos + a sin); `out` may be `in`.
/// Pairs are elements (i, pairs + i) or (2i, 2i + 1).
struct RotaryKernels {
  using Turn = void (*)(const float* in, float* out, const float* cosines, const float* sines,
                        int64_t pairs);
  Turn halves;
  Turn neighbours;
};
OORT_DECLARE_KERNELS(RotaryKernels)

}  // namespace oort
