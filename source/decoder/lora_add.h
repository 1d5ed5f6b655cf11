// SPDX-License-Identifier: MIT
// What adapters add to a product.
#pragma once

#include <span>
#include <string>

#include "decoder/graph_writer.h"
#include "parser/adapter/adapter.h"

namespace oort {

/// Of a product with the weight of that name: its inputs are that product and what was multiplied.
/// Throws kInvalidModel where an adapter is for a weight of another shape.
Written LoraAddOf(std::span<const LoraAdapter> adapters, const std::string& weight,
                  const StoredMatrix& matrix);

}  // namespace oort
