// SPDX-License-Identifier: MIT
// Layers with several matrices that turn what they read into bytes themselves, row by row:
// recurrent ones, and attention with its projections.
#pragma once

#include <string>
#include <vector>

#include "oort/graph.h"

namespace oort::quantize {

/// The operator that does the same with weights of bytes; null where there is none.
const char* DynamicTypeOf(const Operator& op);
/// The attributes of such a layer that are matrices, which become bytes.
std::vector<std::string> MatricesOf(const Operator& op);
/// Why such a layer cannot be quantized; empty where it can.
std::string RowObstacle(const Graph& graph, const Operator& op);

/// Whether the products of a step are so small that turning rows into bytes takes longer than they
/// gain: such a layer stays float unless a recipe says otherwise.
bool HasSmallSteps(const Operator& op);

}  // namespace oort::quantize
