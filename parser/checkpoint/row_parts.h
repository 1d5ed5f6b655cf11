// SPDX-License-Identifier: MIT
// Matrices whose rows a file has in several places.
#pragma once

#include <cstdint>
#include <vector>

#include "parser/checkpoint/tensor_table.h"

namespace oort {

/// The rows of all parts, one part behind the other: `parts` are matrices, or vectors that are then
/// one. They have as many columns and one format. Throws kInvalidModel unless they do.
PlacedTensor Stacked(std::vector<PlacedTensor> parts);

/// Matrices that lie one behind the other, each turned: of `whole`, every `inputs` rows become one
/// row for each of its columns. Weights that are no plain floats become f32.
PlacedTensor TurnedParts(const PlacedTensor& whole, int64_t inputs);

/// Rows of a matrix, or elements of a vector: `run` of them from `first` on, and again every
/// `stride`, up to the end.
PlacedTensor EveryRun(const PlacedTensor& whole, int64_t first, int64_t run, int64_t stride);

}  // namespace oort
