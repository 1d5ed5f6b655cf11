// SPDX-License-Identifier: MIT
// What the kernels of one row (dot_row_*.h) take. Only for quantized_gemv.dot.cpp.
#pragma once

#include <cstdint>

namespace oort::OORT_ISA {

/// One row of x in groups of 32.
struct DotRowX {
  int64_t groups;  ///< at least 1
  const int8_t* q;
  const int8_t* fine;
  const uint8_t* is_fine;  ///< of 4 bits: whether `fine` counts
  const float* scale;
  const float* offset;
  const int32_t* sum;
};

}  // namespace oort::OORT_ISA
