// SPDX-License-Identifier: MIT
#pragma once

#include "layers/device_kernel.h"

namespace oort {

/// What comes behind a sum, once: null where nothing does. A bias is one of the last axis.
struct SumEnd {
  const float* bias = nullptr;
  int64_t width = 1;
  const float* addend = nullptr;
  bool any() const { return bias != nullptr || addend != nullptr; }
};

/// out[i] = parts[i] + parts[i + stride] + … of so many parts in this order, and then what comes
/// behind, for `first` <= i < first + count; `parts` begin with that of `first`. `out` may be one
/// of the parts.
struct SumParts {
  const float* parts = nullptr;
  int count_of_parts = 1;
  int64_t stride = 0;
  int64_t first = 0, count = 0;
};
void SumOnDevice(cuda::Stream&, const SumParts& sum, const SumEnd& end, float* out) OORT_CUDA_ONLY;

/// More than that many ranks have no GPUs.
inline constexpr int kMostPartsOnDevice = 64;

/// Rows of parts of several widths, that of part p from begins[p] to begins[p + 1]. All rows of one
/// part lie together, one part behind the other; or there is one part alone, that is `lone` wide
/// and stands for all of them.
struct JoinParts {
  const float* parts = nullptr;
  int count_of_parts = 1;
  int64_t begins[kMostPartsOnDevice + 1] = {};
  int64_t rows = 0;
  int64_t lone = 0;
};
/// The parts side by side, plus `addend` where that is not null.
void JoinOnDevice(cuda::Stream&, const JoinParts& join, const float* addend,
                  float* out) OORT_CUDA_ONLY;

}  // namespace oort
