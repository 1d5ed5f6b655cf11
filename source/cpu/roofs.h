// SPDX-License-Identifier: MIT
// The loops behind MeasureRoofs (oort/profile.h).
#pragma once

#include <vector>

#include "cpu/kernels.h"
#include "oort/dtype.h"

namespace oort {

struct RoofKernels {
  int flops;  ///< of one step of `multiply_add`
  /// Does nothing but multiply and add in registers.
  float (*multiply_add)(int64_t steps);
  /// Reads `count` floats, a multiple of kRoofBlock.
  float (*read)(const float* data, int64_t count);
};
constexpr int64_t kRoofBlock = 256;
OORT_DECLARE_KERNELS(RoofKernels)

/// Multiply-adds of a smaller type that this processor has instructions for.
struct LowRoof {
  DType dtype;
  Isa isa;
  int flops;  ///< of one step
  void (*run)(int64_t steps);
};
std::vector<LowRoof> LowRoofs();

/// Operations a second of one core with the kernels of `isa`: the faster of register arithmetic
/// and the matrix product's tile in the L1 cache.
double PeakFlops(Isa isa);

}  // namespace oort
