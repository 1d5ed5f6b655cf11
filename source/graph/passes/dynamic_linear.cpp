// SPDX-License-Identifier: MIT
// A linear operator between oort.DynamicQuantize and weights of bytes multiplies bytes.
#include "cpu/activation.h"
#include "graph/passes/byte_weight.h"
#include "graph/passes/passes.h"

namespace oort {
namespace {

void BecomeDynamic(Rewriter& rewriter, int index, const PassContext& context) {
  const ProductInputs inputs = ProductInputsOf(rewriter.op(index), context);
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
