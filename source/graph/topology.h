// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

#include "oort/graph.h"

namespace oort {

/// Operators, producers first, in file order where there is a choice. Operators on a cycle, and
/// those that depend on one, are missing.
std::vector<int> SortOperators(const Graph& graph);

/// "operators form a cycle: a -> b -> a", given what SortOperators could sort.
std::string DescribeCycle(const Graph& graph, const std::vector<int>& sorted);

}  // namespace oort
