// SPDX-License-Identifier: MIT
// What keeps a Graph from running, found before anything is made.
#include <algorithm>

#include "runtime/builder.h"

namespace oort {
namespace {

Problem MakeProblem(const Operator& op, ErrorCode code, const std::string& what) {
  return {code, op.Describe() + ": " + what, op.FileName(), op.FileType(), op.line};
}

Problem UnknownOperator(const Operator& op, const LayerRegistry& registry) {
  // Their bodies are not in the file, so nobody can run them.
  if (op.type == "prim::If" || op.type == "prim::Loop") {
    return MakeProblem(op, ErrorCode::kUnsupported,
                       "pnnx lost what happens inside; export again after torch.jit.trace with "
                       "example inputs, which decides branches and unrolls loops, or write a "
                       "branch as torch.where");
  }
  if (op.type.find("quantized.") != std::string::npos) {
    return MakeProblem(op, ErrorCode::kUnsupported,
                       "computes on quantized tensors, which pnnx writes without the scales of "
                       "all weights; export the model before it is quantized");
  }
  std::string text = "this operator type is not known";
  std::string similar;
  for (const std::string& type : registry.Similar(op.type)) {
    similar += (similar.empty() ? "" : ", ") + type;
  }
  if (!similar.empty()) text += "; similar: " + similar;
  return MakeProblem(op, ErrorCode::kUnsupported, text);
}

void CheckConstantArguments(const OperatorSchema& schema, const BoundArgs& bound,
                            const Operator& op, const std::vector<bool>& constant,
                            std::vector<Problem>& problems) {
  for (size_t i = 0; i < bound.args.size(); ++i) {
    const int input = bound.args[i].input;
    const ArgSpec& spec = schema.args()[i];
    if (input < 0 || spec.dynamic || spec.attribute) continue;
    if (constant[static_cast<size_t>(op.inputs[static_cast<size_t>(input)])]) continue;
    problems.push_back(MakeProblem(
        op, ErrorCode::kUnsupported,
        "'" + spec.name + "' is computed while the model runs, but " + "must be a constant"));
  }
}

}  // namespace

std::vector<bool> ConstantOperands(const Graph& graph, const LayerRegistry& registry) {
  std::vector<bool> constant(graph.operands.size(), false);
  for (int index : graph.TopologicalOrder()) {
    const Operator& op = graph.operators[static_cast<size_t>(index)];
    if (op.type == "pnnx.Input") continue;
    const OperatorSchema* schema = registry.Schema(op.type);
    if (schema != nullptr && schema->random()) continue;
    const bool all = std::all_of(op.inputs.begin(), op.inputs.end(),
                                 [&](int input) { return constant[static_cast<size_t>(input)]; });
    for (int output : op.outputs) constant[static_cast<size_t>(output)] = all;
  }
  return constant;
}

std::vector<Problem> RuntimeGraph::Diagnose(const Graph& graph, const LoadOptions& options) {
  std::vector<Problem> problems = graph.Check();
  if (!problems.empty()) return problems;
  const LayerRegistry& registry = RegistryOf(options);
  const std::vector<bool> constant = ConstantOperands(graph, registry);
  for (const Operator& op : graph.operators) {
    if (op.type == "pnnx.Attribute") {
      if (op.attributes.count("data") == 0 || op.outputs.size() != 1) {
        problems.push_back(
            MakeProblem(op, ErrorCode::kInvalidModel, "needs one output and an attribute '@data'"));
      }
      continue;
    }
    if (op.IsPort()) continue;
    const OperatorSchema* schema = registry.Schema(op.type);
    if (schema == nullptr) {
      problems.push_back(UnknownOperator(op, registry));
      continue;
    }
    const BoundArgs bound = BindArguments(*schema, op, problems);
    CheckConstantArguments(*schema, bound, op, constant, problems);
  }
  return problems;
}

}  // namespace oort
