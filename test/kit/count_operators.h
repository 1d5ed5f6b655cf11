// SPDX-License-Identifier: MIT
// How often a graph has an operator.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "oort/graph.h"

namespace oort::testing {

inline int64_t CountOperators(const Graph& graph, std::string_view type) {
  return std::ranges::count(graph.operators, type, &Operator::type);
}

}  // namespace oort::testing
