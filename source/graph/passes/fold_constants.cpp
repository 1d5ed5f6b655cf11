// SPDX-License-Identifier: MIT
#include <algorithm>

#include "graph/passes/passes.h"

namespace oort {
namespace {

bool AllTensors(const std::vector<Value>& values) {
  return std::all_of(values.begin(), values.end(), [](const Value& v) { return v.IsTensor(); });
}

/// Makes `op` the pnnx.Attribute that yields `value`.
Operator MakeConstant(const Operator& op, int output, const Tensor& value, size_t index) {
  Operator constant;
  constant.type = "pnnx.Attribute";
  constant.name = index == 0 ? op.name : op.name + ".folded" + std::to_string(index);
  constant.line = op.line;
  constant.attributes.emplace("data", value);
  constant.outputs = {output};
  return constant;
}

}  // namespace

void FoldConstants(Graph& graph, const PassContext& context) {
  std::vector<Value> known(graph.operands.size(), Value::Deferred());
  std::vector<bool> folded(graph.operators.size(), false);
  std::vector<Operator> constants;
  for (int index : graph.TopologicalOrder()) {
    const Operator& op = graph.operators[static_cast<size_t>(index)];
    if (op.type == "pnnx.Input" || op.type == "pnnx.Output") continue;
    if (op.type == "pnnx.Attribute") {
      const auto data = op.attributes.find("data");
      if (data != op.attributes.end() && op.outputs.size() == 1) {
        known[static_cast<size_t>(op.outputs[0])] = data->second;
      }
      continue;
    }
    std::vector<Value> inputs;
    for (int input : op.inputs) inputs.push_back(known[static_cast<size_t>(input)]);
    const bool constant = std::all_of(inputs.begin(), inputs.end(),
                                      [](const Value& value) { return value.IsConcrete(); });
    if (!constant) continue;
    const auto results = context.evaluate(op, inputs);
    if (!results || results->size() != op.outputs.size()) continue;
    for (size_t i = 0; i < results->size(); ++i) {
      known[static_cast<size_t>(op.outputs[i])] = (*results)[i];
    }
    // Numbers and lists stay operators: an attribute can only hold a tensor.
    if (!AllTensors(*results)) continue;
    folded[static_cast<size_t>(index)] = true;
    for (size_t i = 0; i < results->size(); ++i) {
      constants.push_back(MakeConstant(op, op.outputs[i], (*results)[i].AsTensor(), i));
    }
  }
  folded.resize(graph.operators.size() + constants.size(), false);
  for (Operator& constant : constants) graph.AddOperator(std::move(constant));
  graph.Remove(folded);
}

}  // namespace oort
