// SPDX-License-Identifier: MIT
#include "graph/passes/passes.h"

namespace oort {
namespace {

/// The operator that packs `operand` into a tuple, list or dictionary, or null.
const Operator* PackerOf(const Graph& graph, int operand) {
  const int producer = graph.operands[static_cast<size_t>(operand)].producer;
  if (producer < 0) return nullptr;
  const Operator& op = graph.operators[static_cast<size_t>(producer)];
  const bool packs = op.type == "prim::TupleConstruct" || op.type == "prim::ListConstruct" ||
                     op.type == "prim::DictConstruct";
  return packs && op.outputs.size() == 1 ? &op : nullptr;
}

/// Depth first; of a dictionary only the values. An explicit stack, since files choose the depth.
std::vector<int> Flatten(const Graph& graph, const std::vector<int>& operands) {
  std::vector<int> flat;
  std::vector<int> pending(operands.rbegin(), operands.rend());
  while (!pending.empty()) {
    const int operand = pending.back();
    pending.pop_back();
    const Operator* packer = PackerOf(graph, operand);
    if (packer == nullptr) {
      flat.push_back(operand);
      continue;
    }
    const bool dictionary = packer->type == "prim::DictConstruct";
    for (size_t i = packer->inputs.size(); i-- > 0;) {
      if (!dictionary || i % 2 == 1) pending.push_back(packer->inputs[i]);
    }
  }
  return flat;
}

bool ForwardUnpacked(Graph& graph, const Operator& unpack) {
  if (unpack.inputs.size() != 1) return false;
  const Operator* packer = PackerOf(graph, unpack.inputs[0]);
  if (packer == nullptr || packer->type == "prim::DictConstruct" ||
      packer->inputs.size() != unpack.outputs.size()) {
    return false;
  }
  const std::vector<int> sources = packer->inputs, targets = unpack.outputs;
  for (size_t i = 0; i < targets.size(); ++i) graph.ReplaceUses(targets[i], sources[i]);
  return true;
}

}  // namespace

void FlattenTuples(Graph& graph, const PassContext&) {
  std::vector<bool> dead(graph.operators.size(), false);
  for (int index : graph.TopologicalOrder()) {
    const Operator& op = graph.operators[static_cast<size_t>(index)];
    if (op.type == "prim::TupleUnpack" || op.type == "prim::ListUnpack") {
      dead[static_cast<size_t>(index)] = ForwardUnpacked(graph, op);
    }
  }
  for (int index : graph.OutputOperators()) {
    graph.SetInputs(index, Flatten(graph, graph.operators[static_cast<size_t>(index)].inputs));
  }
  graph.Remove(dead);
}

}  // namespace oort
