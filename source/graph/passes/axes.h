// SPDX-License-Identifier: MIT
// Operators that put axes into another order, whatever they are called.
#pragma once

#include <string>
#include <vector>

#include "oort/graph.h"

namespace oort {

/// Whether it is a transposition or permutation, with whatever parameters.
bool PermutesAxes(const Operator& op);

/// The axes of the input in the order of the output `output`, for transpositions and permutations
/// whose parameters are constant; empty for all other operators, and where they do not fit.
std::vector<int> AxisOrder(const Operator& op, const Operand& output);

/// Makes `op`, a transposition or permutation, a permutation into this order.
void SetPermutation(Operator& op, const std::vector<int>& order);

}  // namespace oort
