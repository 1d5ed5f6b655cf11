// SPDX-License-Identifier: MIT
// Operators that work element by element, seen as formulas.
#pragma once

#include <optional>
#include <vector>

#include "graph/passes/formula.h"
#include "graph/passes/rewrite.h"

namespace oort {

/// What `op` computes from its inputs "@0", "@1", …, if it is a pnnx.Expression, an activation or a
/// function of torch that does nothing but arithmetic on the elements of tensors.
std::optional<Formula> ElementwiseFormula(const Operator& op);

/// How often an operand stands in a formula.
int CountOperand(const Formula& formula, int operand);

/// Makes a pnnx.Expression compute `formula` of `operands`, of which it keeps those that are used.
void SetFormula(Rewriter& rewriter, int index, const Formula& formula,
                const std::vector<int>& operands);

}  // namespace oort
