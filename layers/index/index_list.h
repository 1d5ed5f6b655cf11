// SPDX-License-Identifier: MIT
// The entries of x[i, :, j]: lists, tensors, masks and None.
#pragma once

#include <string_view>
#include <vector>

#include "oort/value.h"

namespace oort {

/// One axis of x and the integers that index it.
struct IndexedAxis {
  int axis;
  Tensor indices;  ///< integers of any shape
};

/// Which axes of a tensor of shape `x` the entries index. None skips an axis; a mask of rank k
/// stands for k indices, the coordinates of its true elements. Throws where an entry is no index,
/// where there are too many, or where a mask has another shape than the axes it covers.
std::vector<IndexedAxis> ResolveIndices(const Shape& x, const Value::List& indices);

/// Whether the shape of x[indices] depends on elements that are not known.
bool DependsOnElements(const Value::List& indices);

/// "[None,[1,0],[True,False]]" as nested lists of None, bools and ints; throws what is wrong.
Value::List ParseIndexList(std::string_view text);

}  // namespace oort
