// SPDX-License-Identifier: MIT
#pragma once

#include "cpu/lanes_kernels.h"

namespace oort {

template <typename T>
struct PackKernelsOf {
  /// Pixels of `padded` elements from `count` floats of each of `channels` planes, rounded; the
  /// channels behind are zero.
  void (*pixels)(const float* const* planes, int channels, int padded, int64_t count, T* out);
};

#if defined(OORT_F16_UNIT)
namespace OORT_F16_UNIT {
const PackKernelsOf<Half>& PackKernelsGet();
}
#endif

/// Null where there is no f16 arithmetic.
inline const PackKernelsOf<Half>* FindPackKernels([[maybe_unused]] Isa isa) {
#if defined(OORT_F16_UNIT)
  if (HasF16Arithmetic(isa)) return &OORT_F16_UNIT::PackKernelsGet();
#endif
  return nullptr;
}

}  // namespace oort
