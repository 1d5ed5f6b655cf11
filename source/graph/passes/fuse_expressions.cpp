// SPDX-License-Identifier: MIT
#include <algorithm>

#include "graph/passes/elementwise.h"
#include "graph/passes/passes.h"

namespace oort {
namespace {

// A program of more steps would want more registers than stay in the L1 cache.
constexpr size_t kLargestFormula = 48;
constexpr size_t kMostInputs = 8;

/// Whether `inner` is made for each element of `outer` exactly once, as far as the trace tells.
bool SameElements(const Operand& inner, const Operand& outer) {
  return inner.dtype == DType::kF32 && outer.dtype == DType::kF32 && inner.has_shape &&
         outer.has_shape && inner.shape == outer.shape;
}

/// Takes the producer of one input of `index` into its formula; false if there is none to take.
bool TakeOneIn(Rewriter& rewriter, int index) {
  const std::optional<Formula> outer = ElementwiseFormula(rewriter.op(index));
  if (!outer) return false;
  const std::vector<int> inputs = rewriter.op(index).inputs;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const int producer = rewriter.ProducerOf(inputs[i]);
    if (producer < 0 || !rewriter.HasOneUse(inputs[i])) continue;
    if (CountOperand(*outer, static_cast<int>(i)) != 1) continue;
    if (!SameElements(rewriter.operand(inputs[i]),
                      rewriter.operand(rewriter.op(index).outputs[0]))) {
      continue;
    }
    const std::optional<Formula> inner = ElementwiseFormula(rewriter.op(producer));
    if (!inner || inner->size() + outer->size() > kLargestFormula) continue;

    // Operands of both, each once.
    std::vector<int> merged;
    const auto leaf = [&](int operand) {
      const auto found = std::find(merged.begin(), merged.end(), operand);
      const size_t at = static_cast<size_t>(found - merged.begin());
      if (found == merged.end()) merged.push_back(operand);
      return Formula{"@" + std::to_string(at), {}};
    };
    std::vector<Formula> inner_leaves, outer_leaves;
    for (int operand : rewriter.op(producer).inputs) inner_leaves.push_back(leaf(operand));
    for (size_t j = 0; j < inputs.size(); ++j) {
      outer_leaves.push_back(j == i ? Substitute(*inner, inner_leaves) : leaf(inputs[j]));
    }
    if (merged.size() > kMostInputs) continue;
    rewriter.SetInputs(index, std::move(merged));
    Operator& op = rewriter.op(index);
    op.type = "pnnx.Expression";
    op.params.clear();
    op.params["expr"] = Parameter(Substitute(*outer, outer_leaves).ToText());
    rewriter.Kill(producer);
    return true;
  }
  return false;
}

}  // namespace

void FuseExpressions(Graph& graph, const PassContext&) {
  Rewriter rewriter(graph);
  for (int index : graph.TopologicalOrder()) {
    while (!rewriter.dead(index) && TakeOneIn(rewriter, index)) {
    }
  }
  rewriter.Finish();
}

}  // namespace oort
