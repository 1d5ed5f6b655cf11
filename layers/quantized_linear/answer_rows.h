// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>

#include "layers/quantized_linear/cpu/quantized_matrix.h"
#include "oort/kv_cache.h"
#include "oort/layer.h"

namespace oort {

/// Whether the rows of a product of parts, such as experts or heads, are those of answers that are
/// to be computed one by one, as oort.QuantizedLinear does it.
inline bool AreAnswersApart(const Context& context, const QuantizedMultiplier& multiplier) {
  const SequenceBatch* batch = SequenceBatch::Of(context);
  return batch != nullptr && (batch->rows_alone() || !multiplier.has_16_bit_units()) &&
         std::ranges::all_of(batch->slices(), [](const auto& slice) { return slice.count <= 1; });
}

}  // namespace oort
