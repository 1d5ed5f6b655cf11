// SPDX-License-Identifier: MIT
// What the passes over parts of NHWC images have in common.
#pragma once

#include <string>

#include "graph/passes/passes.h"
#include "graph/passes/rewrite.h"

namespace oort {

/// Parts of images are for f32 on the CPU.
inline bool HasParts(const PassContext& context) {
  return !context.on_gpu && context.narrow == DType::kNull;
}

/// The channels of a NHWC operand as traced, -1 where they are not known. Only f32.
inline int64_t TracedChannels(const Operand& operand) {
  const int rank = operand.shape.rank();
  if (!operand.has_shape || operand.dtype != DType::kF32 || rank < 3) return -1;
  const int64_t channels = operand.shape[rank - 1];
  return channels > 0 ? channels : -1;
}

/// Whether an operator of torch's axes works along the channels of images like `image`.
inline bool AlongChannels(const Operator& op, const Operand& image) {
  const Value dim = ParameterValue(op, "dim");  // None where it is computed
  if (!dim.IsInt() || !image.has_shape) return false;
  const int64_t rank = image.shape.rank();
  const int64_t axis = dim.AsInt() < 0 ? dim.AsInt() + rank : dim.AsInt();
  return rank >= 3 && axis == rank - 3;
}

inline void SetNumber(Operator& op, const char* name, int64_t value) {
  op.params[name] = Parameter(std::to_string(value));
}

}  // namespace oort
