// SPDX-License-Identifier: MIT
#include <algorithm>

#include "cpu/activation.h"
#include "graph/passes/linear_op.h"
#include "graph/passes/passes.h"

namespace oort {
namespace {

/// nn.Linear with weights of f32, or what this pass made of one.
bool IsFusableLinear(const Operator& op) {
  if (op.type == "oort.Linear") return op.outputs.size() == 1;
  return IsFloatLinear(op);
}

bool HasActivation(const Operator& op) { return op.params.count("activation") != 0; }

void BecomeFused(Operator& op) {
  if (op.type == "oort.Linear") return;
  op.type = "oort.Linear";
  op.params.clear();
  op.input_names.clear();
}

/// The linear operator before `operand`, if nobody else reads that and it has no activation yet.
int LinearBefore(Rewriter& rewriter, int operand) {
  const int producer = rewriter.ProducerOf(operand);
  if (producer < 0 || !rewriter.HasOneUse(operand)) return -1;
  const Operator& op = rewriter.op(producer);
  return IsFusableLinear(op) && !HasActivation(op) ? producer : -1;
}

bool FuseActivation(Rewriter& rewriter, int index) {
  const auto spec = ActivationOf(rewriter.op(index));
  if (!spec || spec->kind == Activation::kNone) return false;
  const int linear = LinearBefore(rewriter, rewriter.op(index).inputs[0]);
  if (linear < 0) return false;
  BecomeFused(rewriter.op(linear));
  SetActivation(rewriter.op(linear), *spec);
  rewriter.GiveOutput(index, linear);
  return true;
}

/// A tensor of the linear operator's own shape as far as the trace tells; should another come, the
/// layer adds it in a step of its own.
bool IsAddend(const Operand& addend, const Operand& sum) {
  return addend.dtype == DType::kF32 && addend.has_shape && sum.has_shape &&
         addend.shape == sum.shape;
}

bool FuseSum(Rewriter& rewriter, int index, const std::vector<int>& position) {
  if (!IsSumOp(rewriter.op(index))) return false;
  const std::vector<int> inputs = rewriter.op(index).inputs;
  int best = -1, addend = -1;
  for (size_t i = 0; i < 2; ++i) {
    const int linear = LinearBefore(rewriter, inputs[i]);
    if (linear < 0 || rewriter.op(linear).inputs.size() != 1) continue;
    if (!IsAddend(rewriter.operand(inputs[1 - i]), rewriter.operand(inputs[i]))) continue;
    // Of two the later one: the other is there by then.
    if (best >= 0 && position[static_cast<size_t>(best)] > position[static_cast<size_t>(linear)]) {
      continue;
    }
    best = linear;
    addend = inputs[1 - i];
  }
  if (best < 0) return false;
  BecomeFused(rewriter.op(best));
  rewriter.SetInputs(best, {rewriter.op(best).inputs[0], addend});
  rewriter.GiveOutput(index, best);
  return true;
}

}  // namespace

void FuseLinear(Graph& graph, const PassContext& context) {
  if (!context.HasLayer("oort.Linear")) return;
  const std::vector<int> order = graph.TopologicalOrder();
  std::vector<int> position(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    position[static_cast<size_t>(order[i])] = static_cast<int>(i);
  }
  Rewriter rewriter(graph);
  for (int index : order) {
    if (!FuseActivation(rewriter, index)) FuseSum(rewriter, index, position);
  }
  rewriter.Finish();
}

}  // namespace oort
