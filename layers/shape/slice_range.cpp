// SPDX-License-Identifier: MIT
#include "layers/shape/slice_range.h"

#include <algorithm>

namespace oort {
namespace {

constexpr int64_t kToTheEnd = 2147483647;  // how pnnx writes INT64_MAX

int64_t ClampBound(int64_t bound, int64_t extent) {
  if (bound < 0) return std::max<int64_t>(bound + extent, 0);
  return std::min(bound, extent);
}

}  // namespace

SliceRange ResolveSlice(int64_t extent, const Value& start, const Value& end, const Value& step) {
  SliceRange range;
  range.step = step.IsNone() ? 1 : step.AsInt();
  if (range.step <= 0) {
    throw Error(ErrorCode::kInvalidArgument,
                "expected a step of at least 1, got " + std::to_string(range.step));
  }
  const bool open = end.IsNone() || end.AsInt() == kToTheEnd;
  const int64_t stop = open ? extent : ClampBound(end.AsInt(), extent);
  range.start = start.IsNone() ? 0 : ClampBound(start.AsInt(), extent);
  if (stop > range.start) range.length = (stop - range.start - 1) / range.step + 1;
  return range;
}

int64_t NormalizeIndex(int64_t index, int64_t extent) {
  if (index < -extent || index >= extent) {
    throw Error(ErrorCode::kInvalidArgument, "index " + std::to_string(index) +
                                                 " is out of range for an axis of " +
                                                 std::to_string(extent));
  }
  return index < 0 ? index + extent : index;
}

}  // namespace oort
