// SPDX-License-Identifier: MIT
#pragma once

#include "graph/passes/rewrite.h"

namespace oort {

/// Whether an operator surrounds its only input with zeros, by widths that are known at load.
inline bool PadsZeros(const Operator& op) {
  if (op.inputs.size() != 1 || op.outputs.size() != 1) return false;
  if (op.type.starts_with("nn.ZeroPad")) return true;
  const Value value = ParameterValue(op, "value");
  const bool zero = value.IsNumber() && value.AsComplex() == 0.0;
  if (op.type.starts_with("nn.ConstantPad")) return zero;
  const std::string mode = ParameterText(op, "mode");
  return op.type == "F.pad" && (mode.empty() || mode == "constant") && (value.IsNone() || zero);
}

}  // namespace oort
