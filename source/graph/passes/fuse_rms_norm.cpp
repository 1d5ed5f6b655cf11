// SPDX-License-Identifier: MIT
#include "graph/passes/passes.h"
#include "graph/passes/rewrite.h"

namespace oort {
namespace {

/// An RMS norm of the last axis with a constant gain and a stated epsilon.
bool IsPlainRmsNorm(const Operator& op) {
  if (op.type != "nn.RMSNorm" || op.inputs.size() != 1) return false;
  const Tensor* gain = FindAttribute(op, "weight");
  const Value shape = ParameterValue(op, "normalized_shape"), eps = ParameterValue(op, "eps");
  if (gain == nullptr || gain->rank() != 1 || !IsFloatOrAbsent(gain)) return false;
  return shape.IsList() && shape.AsList().size() == 1 && shape.AsList()[0].IsInt() &&
         shape.AsList()[0].AsInt() == gain->dim(0) && (eps.IsFloat() || eps.IsInt());
}

}  // namespace

void FuseRmsNorm(Graph& graph, const PassContext& context) {
  if (!context.on_gpu || !context.HasLayer("oort.QuantizedLinear")) return;
  Rewriter rewriter(graph);
  for (int index : graph.TopologicalOrder()) {
    Operator& linear = rewriter.op(index);
    if (linear.type != "oort.QuantizedLinear" || linear.inputs.empty()) continue;
    const std::string_view name = rewriter.InputName(index, 0);
    if (!name.empty() && name != "input") continue;
    const int producer = rewriter.ProducerOf(linear.inputs[0]);
    if (producer < 0 || !IsPlainRmsNorm(rewriter.op(producer))) continue;
    const Value columns = ParameterValue(linear, "in_features");
    Operator& norm = rewriter.op(producer);
    const bool fits = columns.IsInt() && columns.AsInt() == norm.attributes.at("weight").dim(0);
    if (!rewriter.HasOneUse(linear.inputs[0]) || !fits || linear.attributes.count("norm") != 0) {
      continue;
    }
    linear.attributes["norm"] = norm.attributes.at("weight");
    linear.params["norm_epsilon"] = norm.params.at("eps");
    rewriter.ReplaceInput(index, 0, norm.inputs[0]);  // weights of a tied head are named inputs
    rewriter.Kill(producer);
  }
  rewriter.Finish();
}

}  // namespace oort
