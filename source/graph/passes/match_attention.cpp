// SPDX-License-Identifier: MIT
// Attention as traces spell it: softmax(matmul(q, transposed k) * scale + mask) by matmul with v.
#include <algorithm>

#include "graph/passes/axes.h"
#include "graph/passes/formula.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewrite.h"

namespace oort {
namespace {

/// How scores become the argument of the softmax.
struct ScoreStep {
  int scores = -1;  // operands
  int mask = -1;
  double scale = 1;
};

/// "mul(@i,c)", "div(@i,c)" or "@i".
bool ReadScaled(const Formula& formula, int& operand, double& scale) {
  operand = formula.operand();
  scale = 1;
  if (operand >= 0) return true;
  const bool mul = formula.IsCall("mul", 2), div = formula.IsCall("div", 2);
  if (!mul && !div) return false;
  const Formula *value = &formula.args[0], *factor = &formula.args[1];
  if (mul && value->operand() < 0) std::swap(value, factor);
  operand = value->operand();
  const std::optional<double> number = factor->number();
  if (operand < 0 || !number || *number == 0) return false;
  scale = mul ? *number : 1 / *number;
  return true;
}

/// A product of two tensors that stand in the order of torch's arguments.
bool IsProduct(const Operator& op) {
  if (op.type != "torch.matmul" && op.type != "torch.bmm") return false;
  const std::string first = op.input_names.empty() ? "" : op.input_names[0];
  return op.inputs.size() == 2 && op.outputs.size() == 1 && (first.empty() || first == "input");
}

/// The producer of an operand that has no other use, if it is a product.
Operator* ProductBefore(Rewriter& rewriter, int operand) {
  const int producer = rewriter.ProducerOf(operand);
  if (producer < 0 || !IsProduct(rewriter.op(producer))) return nullptr;
  return rewriter.HasOneUse(operand) ? &rewriter.op(producer) : nullptr;
}

std::optional<ScoreStep> ReadScores(Rewriter& rewriter, int operand) {
  if (ProductBefore(rewriter, operand) != nullptr) return ScoreStep{operand};
  const Operator* op = rewriter.ProducerOf(operand, "pnnx.Expression");
  if (op == nullptr || op->outputs.size() != 1 || !rewriter.HasOneUse(operand)) return {};
  const std::optional<Formula> formula = ParseFormula(ParameterText(*op, "expr"));
  if (!formula) return {};
  const auto input = [&](int index) {
    return index >= 0 && index < static_cast<int>(op->inputs.size())
               ? op->inputs[static_cast<size_t>(index)]
               : -1;
  };
  int scores = -1;
  double scale = 1;
  if (ReadScaled(*formula, scores, scale)) {
    if (op->inputs.size() != 1 || input(scores) < 0) return {};
    return ScoreStep{input(scores), -1, scale};
  }
  if (!formula->IsCall("add", 2) || op->inputs.size() != 2) return {};
  for (size_t i = 0; i < 2; ++i) {
    const int mask = input(formula->args[1 - i].operand());
    if (mask < 0 || !ReadScaled(formula->args[i], scores, scale) || input(scores) < 0) continue;
    if (input(scores) == mask || ProductBefore(rewriter, input(scores)) == nullptr) continue;
    const Operand& hint = rewriter.operand(mask);
    if (hint.dtype != DType::kF32 || !hint.has_shape) return {};
    return ScoreStep{input(scores), mask, scale};
  }
  return {};
}

/// A softmax over the last axis, as far as its parameters tell.
bool IsLastSoftmax(Rewriter& rewriter, const Operator& op) {
  if (op.type != "F.softmax" && op.type != "nn.Softmax" && op.type != "torch.softmax") return false;
  if (op.inputs.size() != 1 || op.outputs.size() != 1) return false;
  const Value dtype = ParameterValue(op, "dtype"), dim = ParameterValue(op, "dim");
  if (!dtype.IsNone() || !dim.IsInt()) return false;
  const Operand& input = rewriter.operand(op.inputs[0]);
  return input.has_shape && (dim.AsInt() == -1 || dim.AsInt() == input.shape.rank() - 1);
}

bool IsFloatTensor(const Operand& operand) {
  return operand.dtype == DType::kF32 && operand.has_shape && operand.shape.rank() >= 3;
}

/// The order of axes under which `transposed` becomes the key: what permuted it with the last two
/// axes swapped. Empty where no permutation of one use stands before it.
std::vector<int> KeyOrder(Rewriter& rewriter, int transposed) {
  const int producer = rewriter.ProducerOf(transposed);
  if (producer < 0 || !rewriter.HasOneUse(transposed)) return {};
  const Operator& op = rewriter.op(producer);
  if (op.inputs.size() != 1 || op.outputs.size() != 1) return {};
  std::vector<int> order = AxisOrder(op, rewriter.operand(transposed));
  if (order.size() < 3) return {};
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return order;
}

/// Makes the operator that permuted the transposed key permute the key itself; returns the key.
int UndoTransposition(Rewriter& rewriter, int transposed, const std::vector<int>& order) {
  const int producer = rewriter.ProducerOf(transposed);
  const int source = rewriter.op(producer).inputs[0];
  if (std::is_sorted(order.begin(), order.end())) return source;
  SetPermutation(rewriter.op(producer), order);
  Shape& shape = rewriter.operand(transposed).shape;
  std::swap(shape[shape.rank() - 1], shape[shape.rank() - 2]);
  return transposed;
}

bool MatchAttentionAt(Rewriter& rewriter, int index) {
  const Operator& last = rewriter.op(index);
  if (!IsProduct(last)) return false;
  const int weights = last.inputs[0], value = last.inputs[1];
  const int softmax = rewriter.ProducerOf(weights);
  if (softmax < 0 || !rewriter.HasOneUse(weights)) return false;
  if (!IsLastSoftmax(rewriter, rewriter.op(softmax))) return false;
  const std::optional<ScoreStep> step = ReadScores(rewriter, rewriter.op(softmax).inputs[0]);
  if (!step) return false;
  const Operator* product = ProductBefore(rewriter, step->scores);
  if (product == nullptr) return false;
  const int query = product->inputs[0], transposed = product->inputs[1];
  const std::vector<int> order = KeyOrder(rewriter, transposed);
  for (int operand : {query, transposed, value}) {
    if (!IsFloatTensor(rewriter.operand(operand))) return false;
  }
  if (order.empty()) return false;

  const int key = UndoTransposition(rewriter, transposed, order);
  std::vector<int> inputs = {query, key, value};
  if (step->mask >= 0) inputs.push_back(step->mask);
  rewriter.SetInputs(index, std::move(inputs));
  Operator& op = rewriter.op(index);
  op.type = "oort.Attention";
  op.params.clear();
  op.params["scale"] = Parameter::FromValue(Value(step->scale));
  op.params["plain_softmax"] = Parameter("True");
  return true;
}

}  // namespace

void MatchAttention(Graph& graph, const PassContext& context) {
  if (!context.HasLayer("oort.Attention")) return;
  Rewriter rewriter(graph);
  bool changed = false;
  for (int index : graph.TopologicalOrder()) changed |= MatchAttentionAt(rewriter, index);
  if (changed) rewriter.Finish();
}

}  // namespace oort
