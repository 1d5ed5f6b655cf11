// SPDX-License-Identifier: MIT
#include <algorithm>
#include <optional>

#include "graph/passes/axes.h"
#include "graph/passes/passes.h"

namespace oort {
namespace {

using Strides = std::vector<int64_t>;

Strides DenseStrides(const Shape& shape) {
  Strides strides(static_cast<size_t>(shape.rank()), 1);
  for (int i = shape.rank() - 2; i >= 0; --i) {
    strides[static_cast<size_t>(i)] =
        strides[static_cast<size_t>(i) + 1] * std::max<int64_t>(shape[i + 1], 1);
  }
  return strides;
}

/// The strides under which `to` shows the elements of `from`, or nothing where torch must copy.
std::optional<Strides> ViewStrides(const Shape& from, const Strides& strides, const Shape& to) {
  Strides result(static_cast<size_t>(to.rank()), 1);
  int view = to.rank() - 1;
  int64_t run = 1, covered = 1, base = strides.empty() ? 1 : strides.back();
  for (int i = from.rank() - 1; i >= 0; --i) {
    run *= from[i];
    const bool ends =
        i == 0 || (from[i - 1] != 1 && strides[static_cast<size_t>(i) - 1] != run * base);
    if (!ends) continue;
    while (view >= 0 && (covered < run || to[view] == 1)) {
      result[static_cast<size_t>(view)] = covered * base;
      covered *= to[view--];
    }
    if (covered != run) return std::nullopt;
    if (i > 0) base = strides[static_cast<size_t>(i) - 1];
    run = covered = 1;
  }
  if (view != -1) return std::nullopt;
  return result;
}

bool IsReshape(const Operator& op) {
  return op.type == "Tensor.reshape" || op.type == "Tensor.view";
}

/// Whether products of the extents are numbers that can be trusted.
bool IsPlain(const Operand& operand) {
  if (!operand.has_shape || !operand.shape.IsKnown()) return false;
  const auto dims = operand.shape.dims();
  return std::all_of(dims.begin(), dims.end(), [](int64_t extent) { return extent >= 1; }) &&
         operand.shape.elements() >= 1;
}

/// The operand whose memory torch's `operand` shows, both as traced: where permutations come
/// between, the elements lie there in another order. -1 if the trace does not tell.
int StorageOf(const Graph& graph, int operand) {
  std::vector<const Operator*> chain;  // the last operator first
  int origin = operand;
  while (true) {
    const Operand& current = graph.operands[static_cast<size_t>(origin)];
    if (!IsPlain(current)) return -1;
    if (current.producer < 0) break;
    const Operator& op = graph.operators[static_cast<size_t>(current.producer)];
    if ((!PermutesAxes(op) && !IsReshape(op)) || op.inputs.empty()) break;
    chain.push_back(&op);
    origin = op.inputs[0];
  }
  Strides strides = DenseStrides(graph.operands[static_cast<size_t>(origin)].shape);
  for (auto op = chain.rbegin(); op != chain.rend(); ++op) {
    const Shape& from = graph.operands[static_cast<size_t>((*op)->inputs[0])].shape;
    const int output = (*op)->outputs[0];
    const Shape& to = graph.operands[static_cast<size_t>(output)].shape;
    if (IsReshape(**op)) {
      const std::optional<Strides> view = ViewStrides(from, strides, to);
      strides = view ? *view : DenseStrides(to);
      if (!view) origin = output;
      continue;
    }
    const std::vector<int> order = AxisOrder(**op, graph.operands[static_cast<size_t>(output)]);
    if (order.empty() || to.rank() != from.rank()) return -1;
    Strides permuted;
    for (int axis : order) permuted.push_back(strides[static_cast<size_t>(axis)]);
    strides = permuted;
  }
  return origin;
}

}  // namespace

void ReadStorage(Graph& graph, const PassContext&) {
  for (size_t i = 0; i < graph.operators.size(); ++i) {
    const Operator& op = graph.operators[i];
    if (op.type != "torch.as_strided" || op.inputs.empty()) continue;
    const int shown = op.inputs[0];
    int storage = -1;
    try {
      storage = StorageOf(graph, shown);
    } catch (const Error&) {  // a traced shape has more elements than can be counted
    }
    if (storage < 0 || storage == shown) continue;
    graph.ReplaceInput(static_cast<int>(i), 0, storage);
  }
}

}  // namespace oort
