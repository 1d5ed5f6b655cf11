// SPDX-License-Identifier: MIT
// The lines of a tensor along one axis: where each begins, and how far apart its elements are.
#pragma once

#include <algorithm>

#include "core/dispatch.h"
#include "oort/layer.h"

namespace oort {

/// What elements are ordered as: all floats of up to 32 bits are alike, and all integers. Three
/// kinds of sort are compiled instead of one for each dtype; a key with its index takes 16 bytes
/// either way.
template <typename T>
using SortKey =
    std::conditional_t<std::is_same_v<T, double>, double,
                       std::conditional_t<kIsHalf<T> || std::is_same_v<T, float>, float, int64_t>>;

/// An element and where it stands in its line.
template <typename Key>
struct IndexedKey {
  Key value;
  int64_t index;
  bool IsNan() const { return value != value; }
};

struct AxisLines {
  AxisLines(const Shape& shape, int axis)
      : extent(shape.rank() == 0 ? 1 : shape[axis]),
        step(shape.Product(std::min(axis + 1, shape.rank()), shape.rank())),
        count(extent == 0 ? 0 : shape.elements() / extent) {}
  /// Where line `index` begins.
  int64_t Start(int64_t index) const { return index / step * extent * step + index % step; }
  /// Runs body(line) for all lines, on several threads.
  template <typename Body>
  void ForEach(const Context& context, const Body& body) const {
    context.ParallelFor(count, 8192 / std::max<int64_t>(1, extent) + 1,
                        [&](int64_t begin, int64_t end) {
                          for (int64_t i = begin; i < end; ++i) body(i);
                        });
  }
  int64_t extent, step, count;
};

}  // namespace oort
