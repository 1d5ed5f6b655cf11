// SPDX-License-Identifier: MIT
#include <map>

#include "graph/passes/passes.h"
#include "graph/passes/rewrite.h"

namespace oort {
namespace {

/// Equal for operators that do the same. Attributes are the same where their memory is.
std::string Signature(const Operator& op) {
  std::string text = op.type + "\n" + std::to_string(op.outputs.size());
  for (int input : op.inputs) text += " " + std::to_string(input);
  for (const std::string& name : op.input_names) text += "\n$" + name;
  for (const auto& [name, parameter] : op.params) text += "\n" + name + "=" + parameter.text();
  for (const auto& [name, tensor] : op.attributes) {
    const auto address = tensor.has_data() ? reinterpret_cast<uintptr_t>(tensor.raw()) : 0;
    text += "\n@" + name + "=" + tensor.ToString() + " " + std::to_string(address);
    if (address == 0) text += " of " + op.name;  // no elements are not equal elements
  }
  return text;
}

/// Whether it may give another result each time; nobody knows that of an undeclared operator.
bool MayBeRandom(const PassContext& context, const Operator& op) {
  if (op.IsPort()) return false;
  return context.Schema(op.type) == nullptr || context.Has(Trait::kRandom, op);
}

/// Two outputs of a model must not become one tensor, which the caller may write to.
bool LeavesTheModel(Rewriter& rewriter, const Operator& op) {
  for (int output : op.outputs) {
    for (int consumer : rewriter.operand(output).consumers) {
      if (rewriter.op(consumer).type == "pnnx.Output") return true;
    }
  }
  return false;
}

}  // namespace

void MergeCommon(Graph& graph, const PassContext& context) {
  Rewriter rewriter(graph);
  std::map<std::string, int> known;
  for (int index : graph.TopologicalOrder()) {
    const Operator& op = rewriter.op(index);
    if (op.type == "pnnx.Input" || op.type == "pnnx.Output" || op.outputs.empty()) continue;
    if (MayBeRandom(context, op) || LeavesTheModel(rewriter, op)) continue;
    const auto [first, added] = known.emplace(Signature(op), index);
    if (added) continue;
    const std::vector<int> from = op.outputs, to = rewriter.op(first->second).outputs;
    for (size_t i = 0; i < from.size(); ++i) graph.ReplaceUses(from[i], to[i]);
    rewriter.Kill(index);
  }
  rewriter.Finish();
}

}  // namespace oort
