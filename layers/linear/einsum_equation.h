// SPDX-License-Identifier: MIT
// The notation of torch.einsum.
#pragma once

#include <algorithm>
#include <map>
#include <span>
#include <string_view>
#include <vector>

#include "oort/shape.h"

namespace oort {

/// A subscript: a letter, kEllipsis, or (once shapes are known) kEllipsis + 1 + i for the axis of
/// the ellipsis that has i axes of it behind it.
using EinsumLabel = int;
inline constexpr EinsumLabel kEllipsis = 256;
using EinsumLabels = std::vector<EinsumLabel>;

inline bool Contains(const EinsumLabels& labels, EinsumLabel label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

struct EinsumEquation {
  std::vector<EinsumLabels> operands;
  bool has_output = false;  ///< "->" was written
  EinsumLabels output;

  /// Throws kInvalidModel for what torch would refuse.
  static EinsumEquation Parse(std::string_view text, size_t operands);

  /// pnnx drops "..." from equations: operands have more axes than letters then. Puts it back
  /// where the shapes allow it, in front where nothing says otherwise. `output` may be null.
  /// Returns false where it fits nowhere.
  bool RestoreEllipsis(std::span<const Shape> shapes, const Shape* output);
};

/// An equation with all axes named, and their extents. A label's extent may be 1 in an operand and
/// more in another.
struct EinsumAxes {
  std::vector<EinsumLabels> operands;
  EinsumLabels output;
  std::map<EinsumLabel, int64_t> extents;
  Shape output_shape;

  /// Throws kInvalidArgument where the shapes do not fit the equation or each other.
  static EinsumAxes Of(const EinsumEquation& equation, std::span<const Shape> shapes);
};

}  // namespace oort
