// SPDX-License-Identifier: MIT
// Python's slices on one axis.
#pragma once

#include <cstdint>

#include "oort/value.h"

namespace oort {

/// Positions start, start + step, … (`length` of them), all inside the axis.
struct SliceRange {
  int64_t start = 0;
  int64_t length = 0;
  int64_t step = 1;
};

/// x[start:end:step] on an axis of `extent`. Negative bounds count from the end, and all are
/// clamped. None, or pnnx's 2147483647 as an end, is the end of the axis. Throws unless step > 0.
SliceRange ResolveSlice(int64_t extent, const Value& start, const Value& end, const Value& step);

/// An index in [-extent, extent) as one in [0, extent); throws otherwise.
int64_t NormalizeIndex(int64_t index, int64_t extent);

}  // namespace oort
