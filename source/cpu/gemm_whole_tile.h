// SPDX-License-Identifier: MIT
// A tile of C with all its rows and columns, finished in registers. Only for *.simd.cpp.
#pragma once

#include <cstdint>

namespace oort::OORT_ISA {

/// c = clamped(init + a b + addend). Row r begins with the values at init + r * init_stride: a bias
/// for all rows where the stride is 0, or what C holds already.
struct WholeTile {
  int64_t k = 0;
  const float *a = nullptr, *b = nullptr;
  const float* init = nullptr;
  int64_t init_stride = 0;
  const float* addend = nullptr;  ///< may be null
  int64_t addend_stride = 0;
  float* c = nullptr;
  int64_t ldc = 0;
  bool clamp = false;
  float low = 0, high = 0;
};

}  // namespace oort::OORT_ISA
