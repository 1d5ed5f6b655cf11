// SPDX-License-Identifier: MIT
// A linear operator between oort.DynamicQuantize and weights of bytes multiplies bytes.
#include "cpu/activation.h"
#include "graph/passes/byte_weight.h"
#include "graph/passes/passes.h"

namespace oort {
namespace {

/// Which inputs of an F.linear are what; -1 where it has none. `x` is -1 for all that differs from
/// how pnnx writes it.
struct LinearInputs {
  int x = -1, weight = -1, bias = -1;
};

LinearInputs InputsOf(const Operator& op, const PassContext& context) {
  const OperatorSchema* schema = context.Schema(op.type);
  if (schema == nullptr || op.outputs.size() != 1) return {};
  std::vector<Problem> problems;
  const BoundArgs bound = BindArguments(*schema, op, problems);
  const auto input = [&](const char* name) {
    const int at = schema->Find(name);
    const int from = at < 0 ? -1 : bound.args[static_cast<size_t>(at)].input;
    return from < 0 ? -1 : op.inputs[static_cast<size_t>(from)];
  };
  if (!problems.empty()) return {};
  return {input("input"), input("weight"), input("bias")};
}

void BecomeDynamic(Rewriter& rewriter, int index, const PassContext& context) {
  const LinearInputs inputs = InputsOf(rewriter.op(index), context);
  if (inputs.x < 0 || inputs.weight < 0) return;
  const Operator* rows = rewriter.ProducerOf(inputs.x, "oort.DynamicQuantize");
  if (rows == nullptr || rows->inputs.size() != 1) return;
  auto weight = ReadByteWeight(rewriter, inputs.weight, 2);
  if (!weight) return;
  const Tensor* bias = inputs.bias < 0 ? nullptr : rewriter.ConstantOf(inputs.bias);
  const Shape one_each{weight->integers.dim(0)};
  if (inputs.bias >= 0 &&
      (bias == nullptr || bias->dtype() != DType::kF32 || bias->shape() != one_each)) {
    return;
  }
  const Parameter symmetric(ParameterText(*rows, "symmetric") == "True" ? "True" : "False");
  Operator& op = rewriter.op(index);
  op.type = "oort.DynamicLinear";
  op.params = {{"symmetric", symmetric}};
  op.attributes = {{"weight", weight->integers}, {"scales", weight->scales}};
  if (bias != nullptr) op.attributes.emplace("bias", *bias);
  rewriter.SetInputs(index, {rows->inputs[0]});
  const int result = op.outputs[0];
  if (!rewriter.HasOneUse(result)) return;
  const int reader = rewriter.operand(result).consumers[0];
  if (rewriter.op(reader).inputs.size() != 1) return;
  const auto activation = ActivationOf(rewriter.op(reader));
  if (!activation) return;
  SetActivation(rewriter.op(index), *activation);
  rewriter.GiveOutput(reader, index);
}

}  // namespace

void DynamicLinear(Graph& graph, const PassContext& context) {
  if (!context.HasLayer("oort.DynamicLinear")) return;
  Rewriter rewriter(graph);
  for (int index : graph.TopologicalOrder()) {
    if (!rewriter.dead(index) && rewriter.op(index).type == "F.linear") {
      BecomeDynamic(rewriter, index, context);
    }
  }
  rewriter.Finish();
}

}  // namespace oort
