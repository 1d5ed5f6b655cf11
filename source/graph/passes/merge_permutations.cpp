// SPDX-License-Identifier: MIT
#include <algorithm>

#include "graph/passes/axes.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewrite.h"

namespace oort {
namespace {

bool IsInOrder(const std::vector<int>& order) { return std::is_sorted(order.begin(), order.end()); }

/// A model must not give the caller an input of its own or a constant back.
bool IsOutput(Rewriter& rewriter, int operand) {
  const std::vector<int>& consumers = rewriter.operand(operand).consumers;
  return std::any_of(consumers.begin(), consumers.end(),
                     [&](int consumer) { return rewriter.op(consumer).type == "pnnx.Output"; });
}

void MergePermutationAt(Rewriter& rewriter, int index) {
  const int output = rewriter.op(index).outputs.size() == 1 ? rewriter.op(index).outputs[0] : -1;
  if (output < 0) return;
  std::vector<int> order = AxisOrder(rewriter.op(index), rewriter.operand(output));
  if (order.empty()) return;
  const int middle = rewriter.op(index).inputs[0], producer = rewriter.ProducerOf(middle);
  if (producer >= 0) {
    const std::vector<int> inner = AxisOrder(rewriter.op(producer), rewriter.operand(middle));
    if (inner.size() == order.size()) {
      for (int& axis : order) axis = inner[static_cast<size_t>(axis)];
      rewriter.SetInputs(index, {rewriter.op(producer).inputs[0]});
      SetPermutation(rewriter.op(index), order);
    }
  }
  if (!IsInOrder(order) || IsOutput(rewriter, output)) return;
  rewriter.graph().ReplaceUses(output, rewriter.op(index).inputs[0]);
  rewriter.Kill(index);
}

}  // namespace

void MergePermutations(Graph& graph, const PassContext&) {
  Rewriter rewriter(graph);
  for (int index : graph.TopologicalOrder()) MergePermutationAt(rewriter, index);
  rewriter.Finish();
}

}  // namespace oort
