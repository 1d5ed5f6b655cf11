// SPDX-License-Identifier: MIT
#pragma once

#include "cpu/kernels.h"

namespace oort {

/// Does nothing but multiply and add in registers.
struct PeakKernels {
  int flops;  ///< of one step
  float (*run)(int64_t steps);
};
OORT_DECLARE_KERNELS(PeakKernels)

}  // namespace oort
