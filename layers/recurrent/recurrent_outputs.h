// SPDX-License-Identifier: MIT
#pragma once

#include <span>
#include <vector>

#include "oort/graph.h"

namespace oort {

/// What a recurrent operator can return.
enum class RecurrentOutput { kSequence, kHidden, kCell };

/// The sizes of a recurrent operator that do not depend on its input.
struct RecurrentSizes {
  bool has_cell = false;  ///< LSTM
  bool batch_first = false;
  int64_t layers = 1, directions = 1;
  int64_t hidden = 0;
  int64_t state = 0;  ///< extent of the state: `hidden`, unless it is projected
  int64_t cells() const { return layers * directions; }

  /// The shape of an output for an input of this shape, of rank 2 or 3. Extents that are unknown
  /// stay so.
  Shape OutputShape(RecurrentOutput output, const Shape& input) const;
};

/// A traced operator returns only what the network used, in the order in which it did: the traced
/// shapes tell which outputs these are. Where they fit several, torch's own order counts.
std::vector<RecurrentOutput> MatchRecurrentOutputs(const RecurrentSizes& sizes,
                                                   const Operand* input,
                                                   std::span<const Operand* const> outputs);

}  // namespace oort
