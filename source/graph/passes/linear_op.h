// SPDX-License-Identifier: MIT
#pragma once

#include "graph/passes/rewrite.h"

namespace oort {

/// nn.Linear with weights of f32 that fit its parameters. What contradicts itself stays as it is,
/// to be refused.
inline bool IsFloatLinear(const Operator& op) {
  if (op.type != "nn.Linear" || op.inputs.size() != 1 || op.outputs.size() != 1) return false;
  const Tensor *weight = FindAttribute(op, "weight"), *bias = FindAttribute(op, "bias");
  if (weight == nullptr || weight->rank() != 2 || !IsFloatOrAbsent(weight)) return false;
  if (!IsFloatOrAbsent(bias) || (bias != nullptr && !(bias->shape() == Shape{weight->dim(0)}))) {
    return false;
  }
  const auto repeats = [&](const char* name, int64_t extent) {
    const Value value = ParameterValue(op, name);
    return value.IsNone() || (value.IsInt() && value.AsInt() == extent);
  };
  const Value flag = ParameterValue(op, "bias");
  return repeats("in_features", weight->dim(1)) && repeats("out_features", weight->dim(0)) &&
         (!flag.IsBool() || flag.AsBool() == (bias != nullptr));
}

/// Whether the operator is the sum of two operands.
inline bool IsSumOp(const Operator& op) {
  if (op.inputs.size() != 2 || op.outputs.size() != 1 || op.inputs[0] == op.inputs[1]) return false;
  return op.type == "pnnx.Expression" && ParameterText(op, "expr") == "add(@0,@1)";
}

}  // namespace oort
